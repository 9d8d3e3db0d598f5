"""The space of a search: ranges by the dotted paths of a spec, walked the same way by whoever chooses."""

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from labkit.faults import explain
from labkit.search.ranges import Choices, Range, Value, as_range, filled, is_range, written
from labkit.spec import Mistake, Spec, ValidationError, shown

if TYPE_CHECKING:
    from optuna import Trial

Changes = dict[str, Any]
"""Path -> value, for `Spec.patched`."""

Take = Callable[[str, Range], Value]
"""Who chooses: the parameter's name and its range -> the value."""

TRIES = 64
"""Combinations that are looked at before a value is said to fit into none."""

MOST_POINTS = 100_000
"""Combinations that are counted one by one."""


@dataclass(frozen=True)
class Space:
    """Ranges by path. A parameter's name is its path; one that a choice brings has the choice's key in its name."""

    ranges: Mapping[str, Range]

    @classmethod
    def of(cls, what: str, given: Any) -> "Space":
        """From what a user wrote under a word. Raises Mistake."""
        if not isinstance(given, Mapping):
            raise Mistake(f"{what}: expected {{path: choices}}, got {shown(given)}; write {{'model.norm': ['layer']}}")
        ranges: dict[str, Range] = {}
        for path, value in given.items():
            if not isinstance(path, str) or not all(step.strip() for step in path.split(".")):
                raise Mistake(f"{what}: {path!r} is no path; write one with dots, such as 'model.norm'")
            if path.partition(".")[0] == "seed":
                raise Mistake(f"{what}: {path}: a seed is nothing to choose; leave it out")
            if not is_range(value) and not isinstance(value, list | tuple | range):
                remedy = f"write a list of the values to try, such as {{{path!r}: [{written(value)}, ...]}}"
                raise Mistake(f"{what}: {path}: {written(value)} is one value; {remedy}")
            if not is_range(value) and not value:
                raise Mistake(f"{what}: {path}: this list is empty; write the values to try")
            try:
                ranges[path] = as_range(value)
            except Mistake as error:
                raise Mistake(f"{what}: {path}: {error}") from error
        return cls(ranges)

    def check_apart(self) -> None:
        """Raise Mistake for a value that two places give: one of them would be tried for nothing."""
        for path, below in self.ranges.items():
            for option in below.options if isinstance(below, Choices) else ():
                for inner in _leaves(option.value, path):
                    if inner != path and inner in self.ranges:
                        told = f"{option.key!r} of {path} gives a value to {inner}, which has a range of its own"
                        raise Mistake(f"{told}; leave one of them out")

    def walk(self, take: Take) -> Changes:
        """The changes that are made of what `take` gives for each parameter, the outer ones first."""
        return {path: _walk(path, below, take) for path, below in self.ranges.items()}

    def ask(self, trial: "Trial") -> Changes:
        """The changes of a trial, asked of its sampler."""
        return self.walk(lambda name, below: below.suggest(trial, name))

    def changes(self, params: Mapping[str, Value]) -> Changes:
        """The changes that a finished trial's parameters stand for."""
        return self.walk(lambda name, below: params[name])

    def parameters(self, params: Mapping[str, Value]) -> dict[str, Range]:
        """Name -> range of the parameters that a trial has."""
        found: dict[str, Range] = {}

        def take(name: str, below: Range) -> Value:
            found[name] = below
            return params[name]

        self.walk(take)
        return found

    def drawn(self, draw: random.Random, forced: Mapping[str, Value] | None = None) -> Changes:
        """Some changes; of uncountable ranges only the ends. What is `forced` stands."""
        fixed = forced or {}
        return self.walk(lambda name, below: fixed[name] if name in fixed else draw.choice(below.values))

    def points(self) -> Iterator[dict[str, Value]]:
        """Every combination of a finite space by its parameters; of uncountable ranges the two ends."""
        stack: list[tuple[int, Range]] = []
        while True:
            depth, params = 0, dict[str, Value]()

            def take(name: str, below: Range, params: dict[str, Value] = params) -> Value:
                nonlocal depth
                if depth == len(stack):
                    stack.append((0, below))
                params[name] = below.values[stack[depth][0]]
                depth += 1
                return params[name]

            self.walk(take)
            yield params
            while stack and stack[-1][0] + 1 == len(stack[-1][1].values):
                stack.pop()
            if not stack:
                return
            stack[-1] = (stack[-1][0] + 1, stack[-1][1])

    @cached_property
    def every(self) -> Mapping[str, Range]:
        """Name -> range of all parameters, the conditional ones among them."""
        found: dict[str, Range] = {}
        for path, below in self.ranges.items():
            _collect(path, below, found)
        return found

    @property
    def is_finite(self) -> bool:
        return all(below.count is not None for below in self.every.values())

    @property
    def is_conditional(self) -> bool:
        """Whether some choice brings parameters of its own."""
        return len(self.every) > len(self.ranges)

    @property
    def size(self) -> int | None:
        """How many combinations there are; None for more than can be counted."""
        if not self.is_finite:
            return None
        count = 0
        for count, _ in enumerate(self.points(), start=1):
            if count > MOST_POINTS:
                return None
        return count

    def edges(self, params: Mapping[str, Value]) -> dict[str, str]:
        """Name -> end, of the parameters that lie at the edge of their range."""
        found = {name: below.edge(params[name]) for name, below in self.parameters(params).items()}
        return {name: end for name, end in found.items() if end}

    def as_json(self) -> dict[str, Any]:
        return {path: below.as_json() for path, below in self.ranges.items()}

    def joined(self, other: "Space") -> "Space":
        return Space({**self.ranges, **other.ranges})

    def check(self, what: str, base: Spec, paths: Iterable[str] | None = None) -> None:
        """Raise Mistake for a value, at some of the paths, that fits into no combination, whatever else is chosen."""
        for path in self.ranges if paths is None else paths:
            below = self.ranges[path]
            for value in below.values if isinstance(below, Choices) else (below.values[0], below.values[-1]):
                if fault := self._fault(base, {path: value}):
                    raise Mistake(f"{what}: {fault}")

    def _fault(self, base: Spec, forced: Mapping[str, Value]) -> str:
        """Why no combination with what is forced is a spec; empty where one is."""
        draw, alone = random.Random(0), Space({path: self.ranges[path] for path in forced})
        first = refused(base, alone.drawn(draw, forced))
        if not first or any(not refused(base, self.drawn(draw, forced)) for _ in range(TRIES)):
            return ""
        return first


def refused(base: Spec, changes: Changes) -> str:
    """Why the changes make no spec of the base; empty where they do."""
    try:
        base.patched(changes)
    except ValidationError as error:
        return explain(error, type(base))
    except Mistake as error:
        return str(error)
    return ""


def digest(value: Any) -> str:
    """Eight hex digits of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:8]


def _walk(name: str, below: Range, take: Take) -> Any:
    value = take(name, below)
    if not isinstance(below, Choices):
        return value
    option = below.option(value)
    return filled(option.value, lambda path, inner: _walk(_under(name, option.key, path), inner, take))


def _collect(name: str, below: Range, found: dict[str, Range]) -> None:
    found[name] = below
    if isinstance(below, Choices):
        for option in below.options:
            for path, inner in option.inside.items():
                _collect(_under(name, option.key, path), inner, found)


def _under(name: str, key: Value, path: str) -> str:
    """``model.position.rope.theta``: a parameter that comes with a choice."""
    return f"{name}.{key}.{path}"


def _leaves(value: Any, path: str) -> Iterator[str]:
    """The paths at which a full spec in a list gives values, with its own in front."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}")
    else:
        yield path
