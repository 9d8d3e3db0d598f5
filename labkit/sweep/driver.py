"""The driver of a sweep's trials: it asks, has them run, looks on, ends what is hopeless, and tells what came of it."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.search.study import Asked, State
from labkit.spec import Mistake
from labkit.study.counting import Counted
from labkit.study.crew import PAUSE
from labkit.study.executors import Answer, Slot
from labkit.study.interrupt import Interrupts, counted_interrupts
from labkit.study.watch import Pace
from labkit.sweep.branch import Branch
from labkit.sweep.folders import Folders
from labkit.sweep.live import Live
from labkit.sweep.pool import Ended, Pool
from labkit.sweep.trials import Trials
from labkit.sweep.work import ATTEMPTS, Work
from labkit.tracking.console import Console
from labkit.tracking.record import divergence

FAILURES = 3
"""So many trials failing one after the other end the sweep: the fourth would too."""

INVALID = 1000
"""So many invalid combinations one after the other end it as well."""

FULL = ("No space left on device", "Disk quota exceeded", "PytorchStreamWriter failed", "file write failed")
"""What a run says that ended for want of disk space; the latter two are PyTorch's words for it."""

RETRY = 1.0
"""Seconds before a run that is in other hands is tried again."""


@dataclass
class Outcome:
    """What came of it."""

    failed: list[str] = field(default_factory=list[str])
    """The names of the trials that failed, with why."""
    interrupted: bool = False


class Driver:
    """Trains what the branches ask for, on the slots."""

    def __init__(
        self, trials: Trials, branches: Sequence[Branch], folders: Folders, slots: Sequence[Slot], console: Console
    ) -> None:
        self.trials, self.branches, self.folders, self.console = trials, branches, folders, console
        self.slots = slots
        self.outcome, self.interrupts = Outcome(), Interrupts()
        self.under_way: list[Work] = []
        self.waiting: list[Work] = []
        self.in_a_row = self.invalid = 0
        self.full = False
        """Whether the disk is, so that no further trial is begun."""

    def run(self, baseline: Counted | None) -> Outcome:
        """Go on until every branch has its trials, or something ends it. Ctrl-C gives back what is under way."""
        pool = Pool(self.slots)
        try:
            with counted_interrupts() as self.interrupts, self.console.gauges() as gauges:
                live = Live(self.console, gauges, self.branches)
                if baseline is not None:
                    self._begin(Work(baseline, self.folders.jobs(baseline, self.trials.seeds)), live)
                while True:
                    self._fill(pool, live)
                    if ended := pool.ended(PAUSE, lambda: self._look(live)):
                        self._take(ended, pool, live)
                    self._look(live)
                    live.show(self.under_way)
                    if self.interrupts.new:
                        self._heed(pool)
                    if self._is_over(pool):
                        return self.outcome
        finally:
            pool.close()
            for work in [*self.under_way, *self.waiting]:
                self._give_back(work)

    @property
    def _is_ending(self) -> bool:
        """Whether nothing further is begun."""
        return self.outcome.interrupted or self.full or self.in_a_row >= FAILURES

    def _is_over(self, pool: Pool) -> bool:
        if pool.busy:
            return False
        if self._is_ending:
            return True
        return not self.waiting and all(branch.is_over for branch in self.branches)

    def _fill(self, pool: Pool, live: Live) -> None:
        """Give every idle worker something to do."""
        while pool.idle and not self._is_ending and not self.interrupts.is_due:
            if (work := next((one for one in self.waiting if one.is_ready), None)) is not None:
                self.waiting.remove(work)
                self._give(work, pool)
            elif (branch := self._hungry()) is not None:
                self._ask(branch, live)
            else:
                return

    def _hungry(self) -> Branch | None:
        """The branch that has the fewest trials, of those that want one."""
        wanting = [branch for branch in self.branches if branch.wants]
        return min(wanting, key=lambda branch: branch.asked, default=None)

    def _ask(self, branch: Branch, live: Live) -> None:
        """Ask for a trial and make its runs; one that is invalid costs nothing."""
        asked = branch.study.ask()
        try:
            with self.interrupts.raising():
                found = self.trials.counted(branch, asked)
        except KeyboardInterrupt:
            branch.study.give_back(asked)
            return
        if isinstance(found, str):
            branch.study.tell(asked, "invalid", facts={"why": found})
            self.invalid += 1
            if self.invalid >= INVALID:
                raise Mistake(f"scientific, nuisance: {INVALID} combinations in a row were invalid, at last: {found}")
            return
        self.invalid = 0
        self._begin(Work(found, self.folders.jobs(found, self.trials.seeds), branch, asked), live)

    def _begin(self, work: Work, live: Live) -> None:
        """Take the next run of a trial: to be trained, or answered from what was made before."""
        self.waiting = [one for one in self.waiting if one is not work]
        asked, branch = work.asked, work.branch
        params = self._params(branch, asked)
        tags = self.trials.tags(branch, asked)
        needs = self.folders.plan(work.job, params, tags)
        self.trials.describe(self.folders)
        work.pace = Pace(work.job, time.time())
        work.before += work.pace.begun / work.counted.steps if needs else 1.0
        if not needs:
            self._ended(work, Answer(work.job.run.record()["status"]), live)
        elif self._judge(work):  # it was under way before, and has been seen enough of
            self._tell(work, "pruned", live)
        else:
            self.waiting.append(work)

    def _params(self, branch: Branch | None, asked: Asked | None) -> dict[str, Any]:
        """What a run's trial chose, after what tells its branch from the others."""
        compared = dict.fromkeys(path for one in self.branches for path in one.arm.changes)
        if branch is None or asked is None:
            return self.trials.written([*compared, *self.branches[0].space.ranges], self.trials.baseline.arm.spec)
        return self.trials.written(compared, branch.arm.spec) | asked.params

    def _give(self, work: Work, pool: Pool) -> None:
        work.attempts += 1
        self.under_way.append(work)
        pool.give(work, work.job.run)

    def _look(self, live: Live) -> None:
        """Read what the workers have measured, end what is hopeless, and keep the leases."""
        for work in self.under_way:
            if not work.pruned_at and self._judge(work):
                work.job.run.request_stop("pruned")
        for branch in self.branches:
            for number in branch.study.keep():
                live.say(f"{branch.folder(number)}: its worker is gone; it goes on here")

    def _judge(self, work: Work) -> bool:
        """Whether what a trial has measured since the last look ends it."""
        branch, asked = work.branch, work.asked
        if branch is None or asked is None or not branch.study.search.method.pruner.looks:
            return False
        points = branch.study.search.points
        for point, value in work.new_points(points, branch.objectives[0].key):
            if branch.study.report(asked, value, point):
                work.pruned_at = round(point * work.counted.steps / points)
                return True
        return False

    def _take(self, ended: Ended, pool: Pool, live: Live) -> None:
        work: Work = ended.work
        self.under_way.remove(work)
        answer = ended.answer
        if answer.status == "busy":
            work.attempts -= 1
            work.not_before = time.monotonic() + RETRY
            self.waiting.append(work)
        elif answer.status == "paused" or (answer.died and self.outcome.interrupted):
            self._give_back(work)
        elif answer.died and work.attempts < ATTEMPTS:
            live.say(f"{work.name}: {answer.error}; another worker goes on with it")
            self.waiting.append(work)
        else:
            self._ended(work, answer, live)

    def _ended(self, work: Work, answer: Answer, live: Live) -> None:
        """A run is over: look at it as a run that is still going would be looked at, then go on or tell."""
        if work.pruned_at or self._judge(work):
            self._tell(work, "pruned", live)
        elif answer.status == "diverged":
            self._tell(work, "diverged", live, divergence(work.job.run.record()))
        elif answer.status != "done" and any(words in f"{answer.error} {answer.said}" for words in FULL):
            self._wait(work, answer, live)
        elif answer.status != "done":
            self._tell(work, "failed", live, answer.error or answer.status)
        else:
            self._done(work, live)

    def _done(self, work: Work, live: Live) -> None:
        record = work.job.run.record()
        work.values.append([one.of(record) for one in self.trials.objectives])
        missing = [one.key for one in self.trials.objectives if math.isnan(one.of(record))]
        if missing:
            self._tell(work, "failed", live, f"{missing[0]} is not in its record")
        elif work.is_last or self._seen_enough(work):
            self._tell(work, "done", live)
        else:
            work.next()
            self._begin(work, live)

    def _seen_enough(self, work: Work) -> bool:
        """Whether a pruner over seeds needs no more of them; the trial then counts by those it has."""
        branch, asked = work.branch, work.asked
        if branch is None or asked is None or not branch.study.search.method.pruner.over_seeds:
            return False
        return branch.study.report(asked, work.values[-1][0], work.at + 1)

    def _tell(self, work: Work, state: State, live: Live, why: str = "") -> None:
        if state == "failed":
            self.in_a_row += 1
            self.outcome.failed.append(f"{work.name}: {why}")
        else:
            self.in_a_row = 0
        if work.branch is not None and work.asked is not None:
            facts = work.facts() | ({"why": why} if why else {})
            work.branch.study.tell(work.asked, state, work.mean if state == "done" else (), facts)
        live.end(work, state, why)

    def _wait(self, work: Work, answer: Answer, live: Live) -> None:
        """A full disk says nothing of a trial: whoever gives the command again has it."""
        self.full = True
        self._give_back(work)
        why = f"{answer.error.strip()}; it waits: free some space, and give the same command again"
        self.outcome.failed.append(f"{work.name}: {why}")
        live.end(work, "waiting", why)

    def _give_back(self, work: Work) -> None:
        if work.branch is not None and work.asked is not None:
            work.branch.study.give_back(work.asked)

    def _heed(self, pool: Pool) -> None:
        """The first Ctrl-C lets the workers save their runs, the second does not."""
        if self.outcome.interrupted:
            pool.kill()
        else:
            self.console.say("interrupted: the runs are being saved; Ctrl-C again kills them", "yellow")
            pool.leave()
        self.outcome.interrupted = True
