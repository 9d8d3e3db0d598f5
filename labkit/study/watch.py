"""How far the runs are, from what their workers have written; shown as bars, or as lines in a pipe."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.report import formats
from labkit.study.executors import Answer
from labkit.study.plan import Job
from labkit.tracking.console import Console, Gauges

STYLES = {"done": "green", "diverged": "yellow", "failed": "bold red", "paused": "yellow"}
UNKNOWN = "-:--"


@dataclass
class Pace:
    """How far one run is, and how fast it goes since it was first seen moving."""

    job: Job
    started: float
    offset: int = 0
    step: int = 0
    loss: float | None = None
    speed: float | None = None
    origin: tuple[int, float] | None = None
    latest: float = 0.0

    @property
    def done(self) -> float:
        """The share of the run that is behind it."""
        return min(1.0, self.step / self.job.counted.steps)

    @property
    def left(self) -> float | None:
        """Seconds to its end; None while unknown."""
        if self.origin is None or self.step <= self.origin[0]:
            return None
        return (self.job.counted.steps - self.step) * (self.latest - self.origin[1]) / (self.step - self.origin[0])

    @property
    def note(self) -> str:
        """``240/800  loss 2.3140  41.2k tok/s  0:12 left``"""
        if self.loss is None:
            return "starting"
        step = f"{self.step:>{len(str(self.job.counted.steps))}}/{self.job.counted.steps}"
        speed = f"{formats.rate(self.speed)} tok/s" if self.speed else "- tok/s"
        return f"{step}  loss {self.loss:.4f}  {speed:>11}  {clock(self.left)} left"

    def look(self) -> None:
        """Read what was written since the last look."""
        lines, self.offset = self.job.run.lines(self.offset)
        for line in lines:
            self.step, self.latest = max(self.step, line["step"]), line["time"]
            if "train/loss" in line:
                self.loss = math.nan if line["train/loss"] is None else line["train/loss"]
            self.speed = line.get("perf/tokens_per_s") or self.speed
        if lines and self.origin is None and self.latest >= self.started:
            self.origin = (self.step, self.latest)


class Watch:
    """The live view of an experiment: a bar for every run that is being trained, and one for all of them."""

    def __init__(self, console: Console, gauges: Gauges, jobs: Sequence[Job], ahead: Sequence[Job]) -> None:
        self.console, self.gauges = console, gauges
        self.total = sum(job.counted.flops for job in jobs)
        self.count, self.over = len(jobs), len(jobs) - len(ahead)
        self.behind = self.total - sum(job.counted.flops for job in ahead)
        self.first, self.began = self.behind, time.monotonic()
        self.width = max(len(job.name) for job in jobs)
        self.paces: dict[Job, Pace] = {}
        self._show_all()

    def start(self, job: Job) -> None:
        pace = self.paces[job] = Pace(job, time.time())
        pace.look()
        begun = f"from step {pace.step} on" if pace.step else ""
        self.first += pace.done * job.counted.flops
        if not self.console.live:
            self.console.say(f"{job.name:<{self.width}}  starts {begun}".rstrip())

    def end(self, job: Job, answer: Answer) -> None:
        """Say how a run ended; a failure with where it is told."""
        self.paces.pop(job, None)
        self.gauges.drop(self._title(job))
        if answer.status == "busy":
            return
        if answer.status not in ("paused", "elsewhere"):
            self.over += 1
            self.behind += job.counted.flops
            self.first += job.counted.flops if answer.status == "over" else 0.0
        self.console.say(f"{job.name:<{self.width}}  {_outcome(job, answer)}", STYLES.get(answer.status, ""))

    def tick(self) -> None:
        """Look at what the workers have written, and show it."""
        for pace in self.paces.values():
            pace.look()
            self.gauges.set(self._title(pace.job), pace.done, 1.0, pace.note)
        self._show_all()

    @property
    def left(self) -> float | None:
        """Seconds to the end of the experiment; None while unknown. Counted from when the first run moved."""
        gained, passed = self._now() - self.first, time.monotonic() - self.began
        return passed * (self.total - self._now()) / gained if gained > 0 else None

    def _show_all(self) -> None:
        if self._now() <= self.first:
            self.began = time.monotonic()
        if self.over == self.count:
            return
        note = f"{self.over}/{self.count} runs  {clock(self.left)} left"
        self.gauges.set(f"{'all':<{self.width}}", self._now(), self.total, note)

    def _now(self) -> float:
        return self.behind + sum(pace.done * pace.job.counted.flops for pace in self.paces.values())

    def _title(self, job: Job) -> str:
        return f"{job.name:<{self.width}}"


def clock(seconds: float | None) -> str:
    """A duration as a stopwatch shows it: 0:07, 12:30, 1:02:03."""
    if seconds is None:
        return UNKNOWN
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _outcome(job: Job, answer: Answer) -> str:
    record = job.run.record()
    if answer.status == "elsewhere":
        return "is being trained by another process; waiting for it"
    if answer.status == "over":
        return f"{record.get('status')} by another process"
    if answer.status == "failed":
        return f"failed: {answer.error or record.get('error') or 'no reason given'}  (see {job.run.console_log})"
    if answer.status == "diverged":
        return f"diverged at step {record.get('diverged_at')}"
    if answer.status != "done":
        return f"{answer.status} at step {record.get('step', 0)} of {job.counted.steps}"
    final = record.get("final", {})
    told = f"val/loss {formats.value(final.get('val/loss', float('nan')))}"
    return f"done  {told}  in {formats.duration(record.get('seconds', float('nan')))}"
