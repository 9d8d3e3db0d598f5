"""What is under way: a trial or the baseline, run by run over its seeds."""

import math
import time
from dataclasses import dataclass, field
from typing import Any

from labkit.search.study import Asked
from labkit.study.counting import Counted
from labkit.study.plan import Job
from labkit.study.watch import Pace
from labkit.sweep.branch import Branch

ATTEMPTS = 3
"""How often a run is given to a worker before its deaths are the run's own fault."""


@dataclass(eq=False)
class Work:
    """One trial's runs, in the order of their seeds; without a branch they are the baseline's."""

    counted: Counted
    jobs: list[Job]
    branch: Branch | None = None
    asked: Asked | None = None
    at: int = 0
    """Which of the jobs is under way."""
    attempts: int = 0
    not_before: float = 0.0
    offset: int = 0
    """Bytes of the run's metrics that were looked at."""
    pruned_at: int = 0
    """The step whose value ended it; 0: none has."""
    pace: Pace | None = None
    before: float = 0.0
    """How many of its runs were made before it was taken up here, in whole ones."""
    values: list[list[float]] = field(default_factory=list[list[float]])
    """Of each finished run, by objective."""

    @property
    def job(self) -> Job:
        return self.jobs[self.at]

    @property
    def name(self) -> str:
        return self.counted.arm.name

    @property
    def mean(self) -> list[float]:
        """Over the runs, by objective."""
        return [math.fsum(column) / len(column) for column in zip(*self.values, strict=True)]

    @property
    def is_last(self) -> bool:
        return self.at + 1 == len(self.jobs)

    @property
    def is_ready(self) -> bool:
        return time.monotonic() >= self.not_before

    def next(self) -> None:
        """Go on to the next seed."""
        self.at, self.attempts, self.offset = self.at + 1, 0, 0

    def new_points(self, points: int, key: str) -> list[tuple[int, float]]:
        """What was measured at evaluation points since the last look: (point from 1, value)."""
        lines, self.offset = self.job.run.lines(self.offset)
        steps = self.counted.steps
        found = [(round(points * line["step"] / steps), line[key]) for line in lines if line.get(key) is not None]
        return [(point, value) for point, value in found if point]

    def facts(self) -> dict[str, Any]:
        """What the study keeps of a trial beside its values."""
        records = [job.run.record() for job in self.jobs[: self.at + 1]]
        return {
            "run": {
                "folder": str(self.job.run.path),
                "fingerprint": self.job.fingerprint,
                "step": sum(record.get("step", 0) for record in records),
                "steps": self.counted.steps * len(self.jobs),
                "seconds": math.fsum(record.get("seconds") or 0.0 for record in records),
                "params": self.counted.costs.params,
                "answered_from": records[-1].get("answered_from", ""),
            }
        }
