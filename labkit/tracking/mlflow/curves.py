"""The points of a run's curves: what the record has, what MLflow has, and whether they agree."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from labkit.tracking.mlflow.params import name

Place = tuple[str, int]
"""A metric's key and a step."""

Points = dict[Place, tuple[int, float]]
"""Place -> (milliseconds since 1970, value)."""


def milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def points(lines: Iterable[Mapping[str, Any]]) -> Points:
    """The points in lines of metrics; the last line of each place counts, null is NaN."""
    return {
        (name(key), line["step"]): (round(line["time"] * 1000), _number(value))
        for line in lines
        for key, value in line.items()
        if key not in ("step", "time")
    }


def finals(record: Mapping[str, Any], time: int) -> Points:
    """The results in a record: ``val/loss`` is ``final/val_loss`` at step 0 (bars in the UI); the loss by position.

    Further validation sets, which decide nothing, stand apart: ``val/books/loss`` is ``uncorrected/val_books_loss``.
    """
    final = record.get("final") or {}
    bars = {(name(_bar(key)), 0): (time, _number(value)) for key, value in final.items()}
    by_position = record.get("by_position") or {"edges": [], "loss": []}
    bins = zip(by_position["edges"], by_position["loss"], strict=False)
    return bars | {("position/val_loss", int(edge)): (time, _number(loss)) for edge, loss in bins}


def _bar(key: str) -> str:
    return ("uncorrected/" if key.count("/") > 1 else "final/") + key.replace("/", "_")


def contradicted(wanted: Points, have: Mapping[Place, list[float]]) -> bool:
    """Whether MLflow, which forgets nothing, has a point twice, with another value, or one that the record has not.

    A resumed run measures its speed anew; the first measurement of a step is as true as the second.
    """
    return any(
        len(values) > 1 or place not in wanted or not (_measured(place) or _same(wanted[place][1], values[0]))
        for place, values in have.items()
    )


def extends(news: Iterable[Place], steps: Mapping[str, int]) -> bool:
    """Whether all points lie beyond the last step of their key."""
    return all(step > steps.get(key, -1) for key, step in news)


def latest(wanted: Points) -> dict[str, float]:
    """Each key's value at its last step."""
    ends = last_steps(wanted)
    return {key: wanted[key, step][1] for key, step in ends.items()}


def last_steps(wanted: Iterable[Place]) -> dict[str, int]:
    ends: dict[str, int] = {}
    for key, step in wanted:
        ends[key] = max(step, ends.get(key, step))
    return ends


def agree(here: Mapping[str, float], there: Mapping[str, float]) -> bool:
    """Whether the last values of all keys are the same, measurements apart."""
    return here.keys() == there.keys() and all(
        _measured((key, 0)) or _same(value, there[key]) for key, value in here.items()
    )


def batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of at most `size` items."""
    rest = list(items)
    for start in range(0, len(rest), size):
        yield rest[start : start + size]


def _measured(place: Place) -> bool:
    return place[0].startswith(("perf/", "final/perf_"))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))
