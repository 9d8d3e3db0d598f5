"""Sizes of a run spec by their paths: what stands there or follows by a rule, and another one in its place.

A path names a size as an experiment does. Where a component holds one of its own family inside, as a mixture does its
expert, ``model.feedforward.d_ff`` is the inner one's; and a layer that a pattern makes different has its own.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from labkit.components.feedforward import Hidden
from labkit.components.pattern import FrozenChanges, flat
from labkit.components.width import Axis, axes_of
from labkit.model import LAYERED, ModelSpec
from labkit.spec import Spec, lean
from labkit.study.names import at
from labkit.train.run import RunSpec

STEP = 8
"""Widths move in multiples of this, which the hardware likes; everything else by one."""

RULES = {"d_ff": "multiplier"}
"""A size that may be left open, and the field that it then follows from."""


def by_rule(spec: RunSpec, path: str) -> int | None:
    """The size that follows from others where a field leaves it open; None for all other fields."""
    owner, _, field = path.rpartition(".")
    part = _at(spec, owner)
    if field == "d_ff" and isinstance(part, Hidden):
        return part.hidden(spec.model.d_model)
    return spec.model.attention.width_of_head(spec.model.d_model) if path == "model.attention.head_dim" else None


def size_at(spec: RunSpec, path: str) -> int | None:
    """The whole number at a path, also one that follows by a rule; None where there is none."""
    try:
        value = at(spec, path)
    except LookupError:
        return None
    return value if type(value) is int else by_rule(spec, path) if value is None else None


def place_of(spec: RunSpec, named: str) -> str:
    """Where the size of that name is in this spec; empty where it has none."""
    owner, _, field = named.rpartition(".")
    part = _at(spec, owner)
    if not isinstance(part, Spec):
        return ""
    inner = [name for name, held in part if isinstance(held, Spec) and field in type(held).model_fields]
    through = inner if field not in type(part).model_fields and len(inner) == 1 else []
    path = ".".join([*filter(None, [owner]), *through, field])
    return path if size_at(spec, path) else ""


def sizes_of(spec: RunSpec) -> list[str]:
    """Every path with a size."""
    return [path for path in spec.flat() if size_at(spec, path)]


def step_of(spec: RunSpec, path: str) -> int:
    """By how much the size there moves at least."""
    owner, _, field = path.rpartition(".")
    return STEP if Axis.WIDTH in axes_of(type(_at(spec, owner)), field) else 1


def gives(changes: Mapping[str, Any], path: str) -> bool:
    """Whether changes say the size at a path themselves, or what it follows from by a rule."""
    owner, _, field = path.rpartition(".")
    paths = [path, *([f"{owner}.{RULES[field]}"] if field in RULES else [])]
    return any(_found(value, given, path) for given, value in changes.items() for path in paths)


def with_size(spec: RunSpec, named: str, size: int) -> RunSpec:
    """The spec with another size; the layers that a pattern gives one of their own follow in proportion.

    What a layer says in so many words stays. Raises Mistake or ValidationError where nothing can be of that size.
    """
    path = place_of(spec, named)
    pattern = [dict(entry) for entry in _pattern(spec, named, size)]
    told = [dict(entry) for entry in spec.model.pattern]
    return spec.patched({path: size, **({"model.pattern": pattern} if pattern != told else {})})


def _pattern(spec: RunSpec, named: str, size: int) -> Iterator[Mapping[str, Any]]:
    for entry, layer in zip(spec.model.pattern, spec.model.layers, strict=False):
        yield _entry(spec, entry, layer, named, size)


def fixed_layers(spec: RunSpec, named: str) -> list[str]:
    """The entries of the pattern whose layers do not follow a move: they say the size, or have none of that name."""
    pairs = enumerate(zip(spec.model.pattern, spec.model.layers, strict=False))
    own = [(index, entry, layer) for index, (entry, layer) in pairs if _touches(entry, named)]
    return [f"pattern.{index}" for index, entry, layer in own if not _free(spec, entry, layer, named)]


def _entry(spec: RunSpec, entry: Mapping[str, Any], layer: ModelSpec, named: str, size: int) -> Mapping[str, Any]:
    """A pattern's entry where the size is another one: as it is unless it has a size that it does not say."""
    path, ours = _free(spec, entry, layer, named), size_at(spec, place_of(spec, named))
    if not path or not ours or not _touches(entry, named):
        return entry
    alone, component = spec.model_copy(update={"model": layer}), named.split(".")[1]
    step, own = step_of(alone, path), size_at(alone, path) or 0
    changed = alone.patched({path: max(step, step * round(own * size / ours / step))}).model
    others = {change: value for change, value in flat(entry) if change.split(".")[0] != component}
    return FrozenChanges({**others, component: getattr(changed, component).as_json()})


def _touches(entry: Mapping[str, Any], named: str) -> bool:
    """Whether a pattern's entry changes the component that the size belongs to."""
    component = ".".join(named.split(".")[1:2])
    return component in LAYERED and any(change.split(".")[0] == component for change, _ in flat(entry))


def _free(spec: RunSpec, entry: Mapping[str, Any], layer: ModelSpec, named: str) -> str:
    """Where a layer's size is, if it does not say it; empty where it says it or has none."""
    path = place_of(spec.model_copy(update={"model": layer}), named)
    return "" if not path or _found(entry, "model", path) else path


def _found(value: Any, given: str, path: str) -> bool:
    """Whether a value given at one path says something at a longer one, or the same."""
    if path != given and not path.startswith(f"{given}."):
        return False
    tree = lean(value)
    for step in path[len(given) :].split(".")[1:]:
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    return tree is not None


def _at(spec: RunSpec, owner: str) -> Any:
    try:
        return at(spec, owner) if owner else spec
    except LookupError:
        return None
