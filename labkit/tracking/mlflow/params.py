"""A run's parameters in MLflow: what varies first under short names, with log10 twins, then the whole spec."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

LONGEST = 500
"""Characters of a value; the artifact spec.json has it whole."""


@dataclass(frozen=True)
class Varied:
    """The paths that an edition's arms differ in: a short name for each, and those whose values span a decade."""

    names: dict[str, str]
    logarithmic: frozenset[str]

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> Self:
        columns: dict[str, list[Any]] = {}
        for arm in description.get("arms", []):
            for path, value in arm.get("varied", {}).items():
                columns.setdefault(path, []).append(value)
        return cls(short(columns), frozenset(path for path, values in columns.items() if _spans_a_decade(values)))

    def params(self, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """The varied values of one run."""
        for path, value in values.items():
            name = self.names.get(path, path)
            yield name, text(value)
            if path in self.logarithmic and _is_positive(value):
                yield f"log10_{name}", f"{math.log10(value):.6g}"


def short(paths: Mapping[str, Any]) -> dict[str, str]:
    """The last steps of each path, as many as tell it from the others: ``model.position.theta`` is ``theta``."""
    names: dict[str, str] = {}
    for path in paths:
        steps = path.split(".")
        tails = [".".join(steps[-count:]) for count in range(1, len(steps) + 1)]
        alone = (tail for tail in tails if sum(f".{other}".endswith(f".{tail}") for other in paths) == 1)
        names[path] = next(alone, path)
    return names


def flat(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted path -> leaf of a spec's JSON; a component stands at its own path by its kind."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield from flat(value, path if name == "kind" else f"{path}.{name}" if path else name)
    elif isinstance(tree, list) and any(isinstance(item, dict) for item in tree):
        for index, item in enumerate(tree):
            yield from flat(item, f"{path}.{index}")
    else:
        yield path, tree


def text(value: Any) -> str:
    """A value as a short text that keeps every digit: 10000, 0.0003, (1, 2), rms(eps=1e-06)."""
    if isinstance(value, dict):
        inner = ", ".join(f"{name}={text(item)}" for name, item in value.items() if name != "kind")
        return clipped(f"{value.get('kind', '')}({inner})")
    if isinstance(value, list):
        return clipped("(" + ", ".join(text(item) for item in value) + ")")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return "none" if value is None else clipped(value if isinstance(value, str) else json.dumps(value))


def clipped(words: str, longest: int = LONGEST) -> str:
    return words if len(words) <= longest else words[: longest - 1] + "…"


def name(words: str) -> str:
    """Words as MLflow takes them for metrics and parameters: letters, digits and ``_ - . / :`` and spaces."""
    return re.sub(r"[^\w.\- :/]", "-", words)[:250]


def _spans_a_decade(values: list[Any]) -> bool:
    return all(_is_positive(value) for value in values) and max(values) >= 10 * min(values)


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
