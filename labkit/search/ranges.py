"""What may stand at one place of a sweep: a range of numbers, or choices that may bring ranges of their own."""

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from labkit.spec import Mistake, Spec, lean, shown

if TYPE_CHECKING:
    from optuna import Trial

P = ParamSpec("P")
R = TypeVar("R")

Value = Any
"""What Optuna keeps of a value: None, a boolean, a number, or a text."""

EDGE = 0.05
"""This part of a range, at either end of it, is its edge."""

LONGEST = 80
"""Characters of a value in a message."""

MOST_CHOICES = 1000
"""Values that are listed one by one."""

MOST = 10**6
"""Values of a range of integers that are listed."""


class Range(Protocol):
    """One parameter of a search."""

    @property
    def count(self) -> int | None:
        """How many values there are; None where they cannot be counted."""
        ...

    @property
    def values(self) -> Sequence[Value]:
        """All of them, ascending; of what cannot be counted the two ends."""
        ...

    def suggest(self, trial: "Trial", name: str) -> Value:
        """The value that a trial has here."""
        ...

    def edge(self, value: Value) -> str:
        """The end that a value is at, "lower" or "upper"; empty in between, and where there are no ends."""
        ...

    @property
    def words(self) -> str: ...

    def as_json(self) -> Any: ...


@dataclass(frozen=True)
class _Between:
    """The numbers from `low` to `high`."""

    low: float
    high: float

    @property
    def count(self) -> int | None:
        return None

    @property
    def values(self) -> Sequence[Value]:
        return (self.low, self.high)


@dataclass(frozen=True)
class Uniform(_Between):
    """Every number from `low` to `high` alike."""

    def suggest(self, trial: "Trial", name: str) -> Value:
        return trial.suggest_float(name, self.low, self.high)

    def edge(self, value: Value) -> str:
        return _edge((value - self.low) / (self.high - self.low))

    @property
    def words(self) -> str:
        return f"{self.low:g} to {self.high:g}"

    @property
    def code(self) -> str:
        """What a user writes for it."""
        return f"uniform({self.low:g}, {self.high:g})"

    def as_json(self) -> Any:
        return {"uniform": [self.low, self.high]}


@dataclass(frozen=True)
class LogUniform(_Between):
    """Every factor from `low` to `high` alike."""

    def suggest(self, trial: "Trial", name: str) -> Value:
        return trial.suggest_float(name, self.low, self.high, log=True)

    def edge(self, value: Value) -> str:
        return _edge(math.log(value / self.low) / math.log(self.high / self.low))

    @property
    def words(self) -> str:
        return f"{self.low:g} to {self.high:g}, logarithmic"

    @property
    def code(self) -> str:
        """What a user writes for it."""
        return f"log_uniform({self.low:g}, {self.high:g})"

    def as_json(self) -> Any:
        return {"log_uniform": [self.low, self.high]}


@dataclass(frozen=True)
class Integers:
    """The whole numbers low, low + step, … up to `high`."""

    low: int
    high: int
    step: int = 1

    @property
    def count(self) -> int | None:
        return len(self.values)

    @property
    def values(self) -> Sequence[Value]:
        return range(self.low, self.high + 1, self.step)

    def suggest(self, trial: "Trial", name: str) -> Value:
        return trial.suggest_int(name, self.low, self.high, step=self.step)

    def edge(self, value: Value) -> str:
        return "lower" if value == self.low else "upper" if value == self.values[-1] else ""

    @property
    def words(self) -> str:
        return f"{self.low} to {self.values[-1]}" + (f" by {self.step}" if self.step > 1 else "")

    @property
    def code(self) -> str:
        """What a user writes for it."""
        return f"integers({self.low}, {self.high}{f', {self.step}' if self.step > 1 else ''})"

    def as_json(self) -> Any:
        return {"integers": [self.low, self.high, self.step]}


@dataclass(frozen=True)
class Option:
    """One of several choices: a value of a spec, in which ranges may stand."""

    key: Value
    """What Optuna knows it by."""
    value: Any
    inside: Mapping[str, "Range"] = field(default_factory=dict[str, "Range"])
    """Dotted path below the value -> the range that stands there."""


@dataclass(frozen=True)
class Choices:
    """One of several values; each may bring its own ranges, which are asked only with it."""

    options: tuple[Option, ...]

    @property
    def count(self) -> int | None:
        return len(self.options)

    @property
    def values(self) -> Sequence[Value]:
        return tuple(option.key for option in self.options)

    def option(self, key: Value) -> Option:
        return next(option for option in self.options if option.key == key and type(option.key) is type(key))

    def suggest(self, trial: "Trial", name: str) -> Value:
        return trial.suggest_categorical(name, self.values)

    def edge(self, value: Value) -> str:
        return ""

    @property
    def words(self) -> str:
        return ", ".join(map(_worded, self.options))

    def as_json(self) -> Any:
        return [[option.key, _plain(option.value)] for option in self.options]


def _called(example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a function refuse arguments that it does not take with a Mistake that shows how it is called."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def checked(*given: P.args, **named: P.kwargs) -> R:
            try:
                inspect.signature(function).bind(*given, **named)
            except TypeError as error:
                raise Mistake(f"{function.__name__}: {error}; write {example}") from error
            return function(*given, **named)

        return checked

    return decorated


@_called("uniform(0.0, 0.1)")
def uniform(low: float, high: float) -> Uniform:
    """A number from `low` to `high`, every one alike: ``uniform(0.0, 0.1)``. Raises Mistake."""
    return Uniform(*_ends("uniform", low, high))


@_called("log_uniform(1e-4, 1e-2)")
def log_uniform(low: float, high: float) -> LogUniform:
    """A number from `low` to `high`, every factor alike: ``log_uniform(1e-4, 1e-2)``. Raises Mistake."""
    ends = _ends("log_uniform", low, high)
    if ends[0] <= 0:
        call = f"log_uniform({low!r}, {high!r})"
        raise Mistake(f"{call}: a logarithm needs a low end above 0; write log_uniform(1e-6, {high!r}), or uniform")
    return LogUniform(*ends)


@_called("integers(2, 8)")
def integers(low: int, high: int, step: int = 1) -> Integers:
    """A whole number: low, low + step, … up to `high`, which it may be. Raises Mistake."""
    more = () if step == 1 else (step,)
    if not all(type(number) is int for number in (low, high, step)) or step < 1:
        call = _call("integers", low, high, *more)
        raise Mistake(f"{call}: expected whole numbers and a step of 1 or more; write integers(2, 8)")
    _ends("integers", low, high, *more)
    if (high - low) // step >= MOST:
        call = _call("integers", low, high, *more)
        raise Mistake(f"{call}: these are more than {MOST:,} values; write a larger step, or uniform")
    return Integers(low, high, step)


@_called("choice(['layer', 'rms'])")
def choice(values: Sequence[Any]) -> Choices:
    """One of the values: numbers, short forms such as "rms", or full specs, in which further ranges may stand:
    ``choice(["none", {"kind": "rope", "theta": log_uniform(1e3, 1e6)}])``. Raises Mistake.
    """
    listed: Any = values
    if not isinstance(listed, list | tuple | range) or not listed:
        raise Mistake(f"choice({written(listed)}): write a list of the values to choose from, such as ['layer', 'rms']")
    if listed[MOST_CHOICES:]:
        raise Mistake(
            f"choice({written(listed)}): these are more than {MOST_CHOICES:,} values; write fewer, or integers(1, 8)"
        )
    for value in listed:
        if type(value) in (int, float) and not _is_finite(value):
            raise Mistake(f"choice: {written(value)} is no finite number; leave it out")
    keys = _keys(listed)
    for index, key in enumerate(keys):
        same = [one for one in keys[:index] if one == key and isinstance(one, bool) is isinstance(key, bool)]
        if same:  # of a spec's numbers 1 and 1.0 are one
            told = "twice" if repr(same[0]) == repr(key) else f"twice, as {key!r} too"
            raise Mistake(f"choice: {same[0]!r} stands there {told}; leave one out")
    return Choices(tuple(Option(key, value, dict(_inside(value, ""))) for key, value in zip(keys, listed, strict=True)))


def written(value: Any) -> str:
    """A value as Python writes it, short enough for a message."""
    try:
        text = repr(value)
    except ValueError:  # a number of more digits than Python writes
        return "a number of very many digits"
    return text if len(text) <= LONGEST else f"{text[:40]} … {text[-20:]}"


def as_range(value: Any) -> Range:
    """A range as it is; a list as the choice of its values. Raises Mistake."""
    return value if is_range(value) else choice(value)


def is_range(value: Any) -> bool:
    return isinstance(value, Uniform | LogUniform | Integers | Choices)


def filled(value: Any, take: Callable[[str, Range], Any], path: str = "") -> Any:
    """The value with what `take` gives for each range in it by its dotted path."""
    if is_range(value):
        return take(path, value)
    if isinstance(value, Mapping):
        return {key: filled(item, take, f"{path}.{key}" if path else key) for key, item in value.items()}
    return value


def _inside(value: Any, path: str) -> Iterator[tuple[str, Range]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            below = f"{path}.{key}" if path else str(key)
            if is_range(item):
                yield below, item
            else:
                yield from _inside(item, below)


def _ends(name: str, low: Any, high: Any, *more: Any) -> tuple[float, float]:
    call = _call(name, low, high, *more)
    if not all(type(end) in (int, float) and _is_finite(end) for end in (low, high)):
        raise Mistake(f"{call}: expected two finite numbers, such as {name}(1e-4, 1e-2)")
    if low >= high:
        remedy = f"write {name}({high!r}, {low!r})" if low > high else "write the value itself"
        raise Mistake(f"{call}: this range is {'upside down' if low > high else 'empty'}; {remedy}")
    return float(low), float(high)


def _call(name: str, *given: Any) -> str:
    return f"{name}({', '.join(map(written, given))})"


def _is_finite(number: float) -> bool:
    """Whether it is a number that a float can hold."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _edge(share: float) -> str:
    return "lower" if share < EDGE else "upper" if share > 1 - EDGE else ""


def _keys(values: Sequence[Any]) -> list[Value]:
    """What Optuna knows the values by: plain ones as they are, specs by their kind, and where kinds are alike by what
    differs between these.
    """
    kinds = [_kind(value) for value in values]
    keys = list[Value]()
    for kind, value in zip(kinds, values, strict=True):
        alike = [other for other, its in zip(values, kinds, strict=True) if its == kind and type(its) is type(kind)]
        keys.append(_label(value, _differing(alike)) if isinstance(value, Mapping | Spec) and alike[1:] else kind)
    return keys


def _kind(value: Any) -> Value:
    if isinstance(value, Mapping) and isinstance(value.get("kind"), str):
        return value["kind"]
    if isinstance(value, Spec):
        return str(getattr(value, "kind", value.label))
    if isinstance(value, Mapping):
        return _label(value, list(value))
    return value if value is None or isinstance(value, bool | int | float | str) else shown(value)


def _differing(alike: Sequence[Any]) -> list[str]:
    """The fields that do not stand in all of these specs with the same value; without ranges, where those suffice."""
    given = [_fields(value) for value in alike]
    texts = [{name: _told(item) for name, item in fields.items()} for fields in given]
    names = dict.fromkeys(name for fields in given for name in fields)
    differing = [name for name in names if any(fields.get(name) != texts[0].get(name) for fields in texts)]
    plain = [name for name in differing if not any(is_range(fields.get(name)) for fields in given)]
    return plain if len({_label(value, plain) for value in alike}) == len(alike) else differing


def _label(value: Any, names: Sequence[str]) -> str:
    """``gqa(n_kv_heads=2)``: the kind, and what stands at some of the fields."""
    fields = _fields(value)
    inner = ", ".join(f"{name}={_told(fields[name])}" for name in names if name in fields)
    kind = value.get("kind", "") if isinstance(value, Mapping) else getattr(value, "kind", type(value).__name__)
    return f"{kind}({inner})" if inner or not kind else str(kind)


def _fields(value: Any) -> dict[str, Any]:
    """Field -> what a user wrote there."""
    given = value if isinstance(value, Mapping) else lean(value) if isinstance(value, Spec) else {}
    return {str(name): item for name, item in given.items() if name != "kind"}


def _told(item: Any) -> str:
    """A range by its words, a number with all the digits that it has."""
    if is_range(item):
        return item.words
    return repr(item) if isinstance(item, float) and float(shown(item)) != item else shown(item)


def _worded(option: Option) -> str:
    inner = ", ".join(f"{path} {below.words}" for path, below in option.inside.items())
    return f"{shown(option.key)} ({inner})" if inner else shown(option.key)


def _plain(value: Any) -> Any:
    """A value with ranges as JSON."""
    if is_range(value):
        return value.as_json()
    if isinstance(value, Spec):
        return value.as_json()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
