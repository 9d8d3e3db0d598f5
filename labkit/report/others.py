"""Further validation sets: every variant's difference on each, uncorrected for their number, for one set decides."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from labkit.report.arms import Arm, finite
from labkit.report.formats import interval, signed
from labkit.report.looks import LEVEL
from labkit.report.model import ALONE, against, noise, table
from labkit.report.resampling import second
from labkit.report.statistics import Difference, Interval

METRIC = re.compile(r"val/(?P<name>[^/]+)/(?P<kind>loss|bpb)")


@dataclass(frozen=True)
class Other:
    """One variant on one further set; both intervals are its own 95 %."""

    set: str
    metric: str
    arm: str
    difference: Difference
    second: Interval | None
    """Over the set's documents."""

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values; null where there is no number."""
        return finite({**asdict(self), "corrected": False})


def others(arms: Sequence[Arm]) -> tuple[Other, ...]:
    """Every variant on every further set that is on record, in nats a token and bits a byte."""
    keys = dict.fromkeys(key for arm in arms for run in arm.done for key in run.record.get("final", {}))
    return tuple(one for key in keys if (found := METRIC.fullmatch(key)) for one in _on(arms, key, found["name"]))


def _on(arms: Sequence[Arm], metric: str, name: str) -> Iterator[Other]:
    measured = [replace(arm, metric=metric) for arm in arms]
    y_AS = table(measured)
    left, (intervals, _) = noise(y_AS), second(measured, metric)
    for row, arm in enumerate(measured):
        if row and arm.finals.keys() & measured[0].finals.keys():
            yield Other(name, metric, arm.name, against(y_AS, row, left, ALONE, LEVEL), intervals[row])


def uncorrected(found: Sequence[Other], kind: str) -> Iterator[tuple[str, str]]:
    """A line for each set, in the unit of the metric that decides: each variant's difference with its interval."""
    for name in dict.fromkeys(one.set for one in found):
        metric = f"val/{name}/{kind}"
        said = [_said(one) for one in found if one.metric == metric]
        yield f"also {name}", f"Δ {metric}, 95 % uncorrected: {'; '.join(said)}"


def _said(one: Other) -> str:
    gap = one.difference
    return f"{one.arm} {signed(gap.mean)} {interval(gap.low, gap.high)}"
