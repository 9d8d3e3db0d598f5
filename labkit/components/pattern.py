"""Layers that differ: changes to one layer's spec, as a tree that paths can step into.

``{"attention.window": 8}`` and ``{"attention": {"window": 8}}`` are the same; a dict with a kind is a whole component.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from labkit.spec import Mistake, Spec, lean


class FrozenChanges(dict[str, Any]):
    """A mapping that hashes, so that a spec which holds it does."""

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(json.dumps(self, sort_keys=True))


def nested(changes: Mapping[str, Any]) -> FrozenChanges:
    """The tree of some changes, given by paths, by nesting or by both."""
    tree = FrozenChanges()
    for path, value in sorted(changes.items(), key=lambda change: change[0].count(".")):
        *parents, last = path.split(".")
        at: dict[str, Any] = tree
        for step in parents:
            inner = at.get(step, {})
            if not isinstance(inner, str | dict):
                raise Mistake(f"{path}: {step} = {inner!r} is given as well, and nothing lies under that")
            at[step] = {"kind": inner} if isinstance(inner, str) else dict(inner)
            at = at[step]
        at[last] = value.as_json() if isinstance(value, Spec) else value
    return tree


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple) and all(isinstance(entry, Mapping) for entry in value):
        return tuple(value)
    raise ValueError(
        f"{value!r} is no list of changes to layers; write one for each layer of a cycle, and {{}} for one that stays "
        f'as it is: [{{"attention.window": 512}}, {{}}]'
    )


Changes = Annotated[dict[str, Any], AfterValidator(nested)]
Pattern = Annotated[tuple[Changes, ...], BeforeValidator(_listed)]
"""The type of a field that holds changes to layers."""


def flat(tree: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of every change; a component that is given whole is one of them."""
    for name, value in tree.items():
        if isinstance(value, dict) and "kind" not in value:
            yield from flat(value, f"{under}{name}.")
        else:
            yield under + name, value


def settled(tree: Mapping[str, Any], changed: Spec) -> FrozenChanges:
    """The same changes with the values that validation made of them, so that equal patterns are written alike."""
    return nested({path: _short(lean(_at(changed, path))) for path, _ in flat(tree)})


def _at(spec: Any, path: str) -> Any:
    for step in path.split("."):
        spec = spec[int(step)] if isinstance(spec, tuple) else getattr(spec, step)
    return spec


def _short(value: Any) -> Any:
    return value["kind"] if isinstance(value, dict) and list(value) == ["kind"] else value
