"""How far the runs are, from what their workers have written; shown as bars, or as lines in a pipe."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.report import formats
from labkit.study.executors import Answer
from labkit.study.plan import Job
from labkit.tracking.console import Console, Gauges
from labkit.tracking.record import divergence

STYLES = {"done": "green", "diverged": "yellow", "failed": "bold red", "paused": "yellow"}
UNKNOWN = "-:--"

TRAINING = 0.9
"""The share of a run that is training, rather than starting and evaluating at the end, until a finished one tells."""


@dataclass
class Pace:
    """How far one run is, and how fast it goes since it was seen moving: what an earlier session made counts as made,
    and never as speed.
    """

    job: Job
    started: float
    offset: int = 0
    begun: int = field(init=False)
    """The step that it goes on from."""
    step: int = field(init=False)
    loss: float | None = None
    speed: float | None = None
    origin: tuple[int, float] | None = None
    latest: float = 0.0

    def __post_init__(self) -> None:
        self.begun = self.step = kept(self.job)

    @property
    def gained(self) -> float:
        """The share of the training that was made since."""
        return max(0.0, self.done - self.begun / self.job.counted.steps)

    @property
    def done(self) -> float:
        """The share of the training that is behind the run."""
        return min(1.0, self.step / self.job.counted.steps)

    @property
    def is_at_the_end(self) -> bool:
        """Whether all of its steps are made, so that the whole split is being evaluated."""
        return self.step >= self.job.counted.steps

    @property
    def left(self) -> float | None:
        """Seconds to its end; None while unknown."""
        if self.origin is None or self.step <= self.origin[0]:
            return None
        return (self.job.counted.steps - self.step) * (self.latest - self.origin[1]) / (self.step - self.origin[0])

    @property
    def note(self) -> str:
        """``240/800  loss 2.3140  41.2k tok/s  0:12 left``; at the last step ``evaluating``."""
        if self.loss is None:
            return "starting"
        step = f"{self.step:>{len(str(self.job.counted.steps))}}/{self.job.counted.steps}"
        speed = f"{formats.rate(self.speed)} tok/s" if self.speed else "- tok/s"
        left = "evaluating" if self.is_at_the_end else f"{clock(self.left)} left"
        return f"{step}  loss {self.loss:.4f}  {speed:>11}  {left}"

    def look(self) -> None:
        """Read what was written since the last look."""
        lines, self.offset = self.job.run.lines(self.offset)
        for line in lines:
            if "train/loss" in line:
                self.loss = math.nan if line["train/loss"] is None else line["train/loss"]
            if line["time"] >= self.started:
                self._move(line["step"], line["time"])
                self.speed = line.get("perf/tokens_per_s") or self.speed

    def _move(self, step: int, now: float) -> None:
        """Be at a step; one before the last is that of another worker, which began at a checkpoint."""
        if self.origin is None or step < self.step:
            self.origin = (step, now)
        self.step, self.latest = step, now


def kept(job: Job) -> int:
    """The step that a run goes on from: that of its last checkpoint."""
    names = (path.name.removeprefix("step-") for path in job.run.checkpoints.glob("step-*"))
    return max((int(name) for name in names if name.isdigit()), default=0)


class Watch:
    """The live view of an experiment: a bar for every run that is being trained, and one for all of them."""

    def __init__(self, console: Console, gauges: Gauges, jobs: Sequence[Job], ahead: Sequence[Job]) -> None:
        self.console, self.gauges, self.jobs = console, gauges, jobs
        self.total = sum(job.counted.flops for job in jobs)
        self.count, self.over = len(jobs), len(jobs) - len(ahead)
        self.behind = self.total - sum(job.counted.flops for job in ahead)
        self.waiting = {job: kept(job) / job.counted.steps for job in ahead}
        """What was made before of each run that is not at work, as a share."""
        self.training = _training(job.run.record() for job in jobs)
        self.gained, self.began = 0.0, time.monotonic()
        """FLOPs that this session made in runs that are no longer at work, and since when."""
        self.width = max(len(job.name) for job in jobs)
        self.paces: dict[Job, Pace] = {}
        self._set_all()

    def start(self, job: Job) -> None:
        pace = self.paces[job] = Pace(job, time.time())
        self.waiting.pop(job, None)
        pace.look()
        begun = f"from step {pace.begun} on" if pace.begun else ""
        if not self.console.live:
            self.console.say(f"{job.name:<{self.width}}  starts {begun}".rstrip())

    def end(self, job: Job, answer: Answer) -> None:
        """Say how a run ended; a failure with where it is told."""
        if pace := self.paces.pop(job, None):
            whole = answer.status == "done"
            rest = (1 - self.training * pace.begun / job.counted.steps) * job.counted.flops
            self.gained += rest if whole else self._gained(pace)
        if answer.status in ("busy", "paused", "elsewhere"):
            self.waiting[job] = kept(job) / job.counted.steps
        else:
            self.waiting.pop(job, None)
            self.over += 1
            self.behind += job.counted.flops
            self.training = _training(one.run.record() for one in self.jobs)
        self.gauges.drop(self._title(job))
        if answer.status != "busy":
            self._set_all()
            self.console.say(f"{job.name:<{self.width}}  {_outcome(job, answer)}", STYLES.get(answer.status, ""))

    def tick(self) -> None:
        """Look at what the workers have written, and show it."""
        for pace in self.paces.values():
            pace.look()
            if self.console.live or pace.loss is not None:  # in a pipe a line says already that it starts
                self.gauges.set(self._title(pace.job), pace.done, 1.0, pace.note)
        self._set_all()
        self.gauges.show()

    @property
    def left(self) -> float | None:
        """Seconds to the end of the experiment; None while unknown. Counted from when the first run moved.

        How long an evaluation takes at the end is not known before a run has been through one.
        """
        if self.training == TRAINING and self.paces and all(pace.is_at_the_end for pace in self.paces.values()):
            return None
        gained, passed = self._made(), time.monotonic() - self.began
        return passed * (self.total - self._now()) / gained if gained > 0 else None

    def _set_all(self) -> None:
        if self._made() <= 0:
            self.began = time.monotonic()
        if self.over == self.count:
            self.gauges.drop(f"{'all':<{self.width}}")
            return
        note = f"{self.over}/{self.count} runs  {clock(self.left)} left"
        self.gauges.set(f"{'all':<{self.width}}", self._now(), self.total, note)

    def _now(self) -> float:
        """FLOPs that are behind the experiment."""
        shares = [*self.waiting.items(), *((job, pace.done) for job, pace in self.paces.items())]
        return self.behind + sum(share * self.training * job.counted.flops for job, share in shares)

    def _made(self) -> float:
        """Those that this session made."""
        return self.gained + sum(map(self._gained, self.paces.values()))

    def _gained(self, pace: Pace) -> float:
        return pace.gained * self.training * pace.job.counted.flops

    def _title(self, job: Job) -> str:
        return f"{job.name:<{self.width}}"


def clock(seconds: float | None) -> str:
    """What is left as a stopwatch shows it: 0:07, 12:30, 1:02:03; never nothing."""
    if seconds is None:
        return UNKNOWN
    minutes, rest = divmod(max(1, round(seconds)), 60)
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
        return f"diverged {divergence(record)}"
    if answer.status != "done":
        return f"{answer.status} at step {record.get('step', 0)} of {job.counted.steps}"
    final = record.get("final", {})
    told = f"val/loss {formats.value(final.get('val/loss', float('nan')))}"
    return f"done  {told}  in {formats.duration(_wall(record))}"


def _wall(record: Mapping[str, Any]) -> float:
    """Seconds from the start of a run's last session to its end: starting, training and evaluating."""
    sessions = record.get("sessions") or [record]
    return (record.get("ended") or math.nan) - (sessions[-1].get("started") or math.nan)


def _training(records: Iterable[Mapping[str, Any]]) -> float:
    """The share of training in the time of the runs that were finished in one go."""
    done = [record for record in records if record.get("status") == "done" and len(record.get("sessions", "-")) == 1]
    whole = sum(wall for record in done if (wall := _wall(record)) > 0)
    return min(1.0, sum(record.get("seconds", 0.0) for record in done) / whole) if whole else TRAINING
