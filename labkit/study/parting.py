"""What two runs differ in: their specs, what they were run with, where their curves part, and how they end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from labkit.spec import Mistake
from labkit.tracking.console import Console
from labkit.tracking.record import Run

VERSION = 1
ABSENT = "-"
DIGITS, WHOLE = 6, 17
"""Of a number: those that matter, and those that say it to the last bit."""

FACTS = (
    *("params", "flops_per_token", "steps", "tokens", "epochs", "status", "diverged_at"),
    *("data.hash", "data.corpus", "data.tokenizer", "sources", "labkit_sources", "versions"),
    *("device", "mode", "kernels", "execution", "runtime"),
)
"""Of a record: what two runs that are to be compared should have in common, but for what their specs say."""
CURVES = ("train/loss", "optim/grad_norm", "val/loss")


@dataclass(frozen=True)
class Change:
    """One thing that is not the same in both."""

    path: str
    here: Any
    there: Any


@dataclass(frozen=True)
class Parting:
    """The first step at which a curve of both is not the same; none where it is to its end."""

    key: str
    common: int
    """Steps that both have on record."""
    step: int | None
    here: float | None
    there: float | None

    @property
    def told(self) -> list[str]:
        if self.step is None:
            return [self.key, "never" if self.common else ABSENT, "", "", str(self.common)]
        return [self.key, str(self.step), *_apart(self.here, self.there), str(self.common)]


@dataclass(frozen=True)
class Parted:
    """Everything that tells two runs apart."""

    spec: list[Change]
    facts: list[Change]
    curves: list[Parting]
    final: list[Change]
    damaged: list[str]
    """What could not be read of the curves."""

    def as_json(self) -> dict[str, Any]:
        return {"version": VERSION, **asdict(self)}


def parted(here: Run, there: Run) -> Parted:
    """Compare two runs by what is on disk. Raises Mistake for a folder that holds none."""
    records = [_recorded(run) for run in (here, there)]
    curves, garbled = zip(*(run.curves() for run in (here, there)), strict=True)
    picked = [{name: _at(record, name.split(".")) for name in FACTS} for record in records]
    return Parted(
        spec=list(_changes(*(dict(_leaves(run.spec())) for run in (here, there)))),
        facts=list(_changes(*(dict(_leaves(facts)) for facts in picked))),
        curves=[_parting(key, *(dict(each.get(key, [])) for each in curves)) for key in CURVES],
        final=list(_changes(*(record.get("final", {}) for record in records))),
        damaged=[told for told in dict.fromkeys(garbled) if told],
    )


def show(console: Console, names: Sequence[str], found: Parted) -> None:
    """As tables."""
    sections = {"spec": found.spec, "run with": found.facts, "final": found.final}
    for title, changes in sections.items():
        tell = _whole if title == "spec" else _apart
        if changes:
            rows = [[change.path, *tell(change.here, change.there)] for change in changes]
            console.table(title, ["path", *names], rows, left=3)
        else:
            console.show(f"{title}: the same in both")
    headers = ["curve", "parts at step", *names, "steps in common"]
    console.table("curves", headers, [parting.told for parting in found.curves], left=1)
    for told in found.damaged:
        console.say(f"damaged: {told}", "yellow")


def _recorded(run: Run) -> Mapping[str, Any]:
    if not run.record():
        raise Mistake(f"{run.path}: this folder holds no run; write a run's folder, or experiment:variant:seed")
    return run.record()


def _at(value: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Path -> value of a tree of JSON; a component stands at its own path by its kind."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, path if name == "kind" and path else f"{path}.{name}" if path else name)
    else:
        yield path, value


def _changes(here: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[Change]:
    for path in dict.fromkeys((*here, *there)):
        if here.get(path) != there.get(path):
            yield Change(path, here.get(path), there.get(path))


def _parting(key: str, here: Mapping[int, float], there: Mapping[int, float]) -> Parting:
    common = sorted(here.keys() & there.keys())
    step = next((step for step in common if repr(here[step]) != repr(there[step])), None)
    values = (None, None) if step is None else (here[step], there[step])
    return Parting(key, len(common), step, *values)


def _whole(here: Any, there: Any) -> tuple[str, str]:
    """Two values as they were written."""
    return _text(here), _text(there)


def _apart(here: Any, there: Any) -> tuple[str, str]:
    """Two values, of numbers that were computed the six digits that matter, or as many as tell one from the other."""
    if not (isinstance(here, float) and isinstance(there, float)):
        return _whole(_rounded(here, DIGITS), _rounded(there, DIGITS))
    pairs = ((_rounded(here, digits), _rounded(there, digits)) for digits in range(DIGITS, WHOLE))
    return next(((one, other) for one, other in pairs if one != other), (repr(here), repr(there)))


def _rounded(value: Any, digits: int) -> Any:
    return f"{value:.{digits}g}" if isinstance(value, float) else value


def _text(value: Any) -> str:
    return ABSENT if value is None else value[:16] if _is_hash(value) else str(value)


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64
