"""What a person sees of a sweep while it runs: the trials under way, the best so far and its choices, the time left."""

import time
from collections import Counter
from collections.abc import Sequence

from labkit.report import formats
from labkit.search.study import state_of
from labkit.study.watch import clock
from labkit.sweep.branch import Branch, short
from labkit.sweep.work import Work
from labkit.tracking.console import Console, Gauges
from labkit.tracking.record import divergence

STYLES = {"done": "", "pruned": "", "diverged": "yellow", "failed": "bold red"}
EVERY = 1.0
"""Seconds between two looks at the studies."""


class Live:
    """A bar for every trial that is being run, and one for the sweep; in a pipe a line for each that ends."""

    def __init__(self, console: Console, gauges: Gauges, branches: Sequence[Branch]) -> None:
        self.console, self.gauges, self.branches = console, gauges, branches
        self.total = sum(branch.trials for branch in branches)
        self.began, self.looked = time.monotonic(), 0.0
        self.over = self._over()
        self.first: float = self.over
        """Trials that were made before, and the part that was of those that ended since."""
        self.note = ""

    def say(self, text: str) -> None:
        self.console.say(text, "yellow")

    def end(self, work: Work, state: str, why: str) -> None:
        """Say how a trial ended."""
        self.gauges.drop(work.name)
        if work.branch is not None and state in ("done", "pruned", "diverged"):
            self.first += min(1.0, work.before / (work.at + 1))
        told = [work.name, self._told(work, state, why)]
        if work.asked is not None:
            told.append(short(work.asked.params))
        self.console.say("  ".join(told), STYLES.get(state, ""))
        self.looked = 0.0

    def show(self, under_way: Sequence[Work]) -> None:
        for work in under_way:
            pace = work.pace
            if pace is not None:
                pace.look()
                if self.console.live or pace.loss is not None:
                    self.gauges.set(work.name, pace.done, 1.0, pace.note)
        if time.monotonic() - self.looked > EVERY:
            self.looked, self.note = time.monotonic(), self._note(len(under_way))
        if self.over < self.total:
            self.gauges.set("all", self.over, self.total, self.note)
        else:
            self.gauges.drop("all")
        self.gauges.show()

    def _told(self, work: Work, state: str, why: str) -> str:
        record = work.job.run.record()
        answered = f", from {record['answered_from']}" if record.get("answered_from") else ""
        if state == "done":
            values = "  ".join(
                f"{one} {formats.figure(one, value)}" for one, value in zip(self._keys(work), work.mean, strict=False)
            )
            return f"done  {values}{answered}"
        if state == "diverged":
            return f"diverged {divergence(record)}{answered}"
        if state == "pruned":
            went_on = f", when it had got to {record['step']}" if record.get("step", 0) > work.pruned_at else ""
            return f"pruned at step {work.pruned_at} of {work.counted.steps}{went_on}"
        if state == "waiting":
            return why
        return f"failed: {why}  (see {work.job.run.console_log})"

    def _keys(self, work: Work) -> list[str]:
        branch = work.branch or self.branches[0]
        return [one.key for one in branch.objectives]

    def _over(self) -> int:
        return sum(
            sum(state_of(trial) in ("done", "pruned", "diverged") for trial in branch.known) for branch in self.branches
        )

    def _note(self, running: int) -> str:
        """``12/24 trials, 3 pruned  4 running  best 2.3140 (norm=rms,lr=0.003)  1:20 left``"""
        self.over = self._over()
        states = Counter(state_of(trial) for branch in self.branches for trial in branch.known)
        others = [f"{states[state]} {state}" for state in ("pruned", "invalid", "diverged", "failed") if states[state]]
        parts = [", ".join([f"{self.over}/{self.total} trials", *others]), f"{running} running"]
        best = [trial for branch in self.branches if (trial := branch.best) is not None]
        if best:
            first = self.branches[0].objectives[0]
            sign = 1 if first.direction == "minimize" else -1
            trial = min(best, key=lambda one: sign * one.values[0])
            parts.append(f"best {formats.figure(first.key, trial.values[0])} ({short(trial.params)})")
        gained = self.over - self.first
        left = (time.monotonic() - self.began) * (self.total - self.over) / gained if gained > 0 else None
        return "  ".join([*parts, f"{clock(left)} left"])
