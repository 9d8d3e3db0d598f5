"""What an experiment will take and what it can show, before it is run."""

import math
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from labkit.data import Store
from labkit.report import formats
from labkit.report.arms import BITS, finite
from labkit.report.looks import LEVEL, levels
from labkit.report.power import resolvable, tied
from labkit.report.precedent import Conditions, Precedent, precedent
from labkit.spec import Mistake
from labkit.study.counting import Counted
from labkit.study.ending import Part, parts
from labkit.study.own import own_source
from labkit.study.pace import Pace, measured, recorded, shape
from labkit.study.plan import Job, need_of
from labkit.study.remembered import keep, recall
from labkit.study.runner import Runner

BEFORE, AFTER = 2.0, 1.5
"""Starts of a worker that pass before the first run begins, for the command loads as much, and that the report and
MLflow take after the last: as slow as a busy machine makes them."""

STARTING = 10.0
"""Seconds that a worker takes at most until it is ready, where it was not measured: what loading took here is taken."""

WEIGHT, TRAINED = 4, 12
"""Bytes a parameter that a finished run keeps, and that a checkpoint on the way holds (AdamW's moments too)."""

LOGGED, LINES, FIXED = 160, 2000, 60_000
"""Bytes of a line of metrics, lines at most, and bytes of the sources and facts of a run."""


@dataclass(frozen=True)
class Resolution:
    """What a number of seeds can show."""

    seeds: int
    difference: float
    """Shown with 80 % power, in the metric's unit; NaN for one seed."""
    tie: float
    """The margin within which equal arms are shown to tie, with 80 % power."""


@dataclass(frozen=True)
class Forecast:
    """An experiment's cost and resolution; what is not known is empty or NaN, and said."""

    runner: Runner
    states: Mapping[Job, str]
    """What there is to do for a run."""
    paces: Mapping[str, Pace]
    """By an arm's name; those that nothing is known of are left out."""
    stores: Mapping[str, Store]
    """By an arm's name; empty where the data is not looked at."""
    endings: Mapping[str, Sequence[Part]]
    """What a run scores at its end, by an arm's name; empty where the data is not looked at."""
    noise: Precedent
    start: float
    """Seconds until a fresh worker is ready."""
    diverged: Collection[str] = ()
    """The arms whose few steps came to no number, so that they have no pace; what is reckoned leaves them out."""

    @property
    def ahead(self) -> list[Job]:
        """The runs that are to be trained."""
        return [job for job in self.runner.jobs if self.states[job] not in ("finished", "answered", "running")]

    @property
    def arms(self) -> list[Counted]:
        """Those that have a run."""
        return [arm for arm in self.runner.arms if any(job.counted is arm for job in self.runner.jobs)]

    @cached_property
    def compared(self) -> list[Counted]:
        """Those that will be on record once the runs ahead are done: the arms here, and what was run before."""
        here = self.arms
        return [arm for arm in self.runner.arms if arm in here or self._is_begun(arm)]

    def _is_begun(self, arm: Counted) -> bool:
        known = (run.record() for run in self.runner.edition.runs())
        return any((run["variant"], run["arm"]) == (arm.arm.name, arm.arm.fingerprint) for run in known)

    def seconds(self, arm: Counted, share: float = 1.0) -> float:
        """Of one run of an arm, or of one that is cut to a share of its steps; NaN where its pace is unknown."""
        pace = self.paces.get(arm.arm.name)
        steps = max(1, round(share * arm.steps))
        return pace.seconds(steps, arm.arm.spec.evaluation.points) if pace else math.nan

    def ends(self, arm: Counted) -> dict[str, float]:
        """The share of a run that each part of the evaluation at its end takes, by the part's name."""
        pace, whole = self.paces.get(arm.arm.name), self.seconds(arm)
        told = self.endings.get(arm.arm.name, ()) if pace else ()
        return {part.name: pace.token * part.work / whole for part in told if pace}

    @property
    def whole(self) -> float:
        """Seconds until the experiment is over, all of what is ahead; NaN where a pace is unknown."""
        left = [job.counted for job in self.ahead if job.counted.arm.name not in self.diverged]
        return self.makespan([self.seconds(arm) for arm in left])

    @property
    def reckoned(self) -> list[Counted]:
        """The arms that have a run and did not diverge at once."""
        return [arm for arm in self.arms if arm.arm.name not in self.diverged]

    def makespan(self, runs: Sequence[float]) -> float:
        """Until the last of the runs is over, each taken by the first worker that is free, and told of."""
        if not runs or any(math.isnan(seconds) for seconds in runs):
            return math.nan if runs else 0.0
        free = [BEFORE * self.start] * min(len(self.runner.slots), len(runs))
        for seconds in runs:
            first = free.index(min(free))
            free[first] += seconds
        return max(free) + AFTER * self.start

    @property
    def disk(self) -> float:
        """Bytes that stay of the runs ahead."""
        return float(sum(kept(job.counted) for job in self.ahead))

    @property
    def scratch(self) -> float:
        """Bytes of checkpoints on the way, the new one beside the old, on every worker at once."""
        most = max((2 * TRAINED * job.counted.costs.params for job in self.ahead), default=0)
        return float(most * min(len(self.runner.slots), len(self.ahead)))

    @property
    def free(self) -> float:
        """Bytes that are free where the runs lie."""
        runs = self.runner.options.runs.absolute()
        return float(shutil.disk_usage(next(folder for folder in (runs, *runs.parents) if folder.exists())).free)

    def epochs(self, arm: Counted) -> float:
        """How often an arm goes over its data; NaN where the data was not looked at."""
        store = self.stores.get(arm.arm.name)
        return arm.tokens / store.train.n_tokens if store else math.nan

    @property
    def margin(self) -> float:
        """M in the metric's unit; NaN for bits a byte of data that was not looked at."""
        experiment, store = self.runner.experiment, self.stores.get("baseline")
        if experiment.metric != BITS:
            return experiment.margin
        return experiment.margin * store.val.n_tokens / store.val.n_bytes / math.log(2) if store else math.nan

    def resolution(self, seeds: int) -> Resolution:
        """What so many seeds show, at the last of the looks."""
        arms, variants = len(self.compared), sum(not arm.arm.shift for arm in self.compared[1:])
        error, dof = self._error(seeds)
        if dof < 1 or not variants:
            return Resolution(seeds, math.nan, math.nan)
        looks = tuple(look for look in self.runner.experiment.looks if look < seeds)
        level = levels((*looks, seeds), variants, arms)[-1] if looks else LEVEL
        return Resolution(seeds, resolvable(error, variants, dof, level), self.tie(seeds))

    def tie(self, seeds: int) -> float:
        """The margin within which so many seeds show equal arms to tie; NaN where they cannot."""
        error, dof = self._error(seeds)
        return tied(error, dof) if dof else math.nan

    def _error(self, seeds: int) -> tuple[float, int]:
        """The standard error of a difference, and the degrees of freedom of the noise."""
        return self.noise.pair / math.sqrt(seeds), (seeds - 1) * (len(self.compared) - 1)

    def as_json(self) -> dict[str, Any]:
        seeds = len(self.runner.experiment.seed_list)
        shown = self.resolution(seeds)
        return finite(
            {
                "arms": {arm.arm.name: self._arm(arm) for arm in self.arms},
                "seconds": self.whole,
                "workers": len(self.runner.slots),
                "disk_bytes": self.disk,
                "free_bytes": self.free,
                "noise": self.noise.as_json(),
                "resolution": {"seeds": seeds, "difference": shown.difference, "tie": shown.tie, "margin": self.margin},
            }
        )

    def _arm(self, arm: Counted) -> dict[str, Any]:
        pace, seconds = self.paces.get(arm.arm.name), self.seconds(arm)
        speed = arm.arm.spec.tokens_per_step / pace.step if pace else math.nan
        source = "diverged" if arm.arm.name in self.diverged else pace.source if pace else None
        told = {"seconds": seconds, "tokens_per_s": speed, "pace": source}
        return told | {"end": self.ends(arm), "flops": arm.flops, "epochs": self.epochs(arm)}


def forecast(runner: Runner, *, measure: bool = False, again: bool = False) -> Forecast:
    """The forecast from what is on record or was timed before; with `measure`, a few steps are run of all other shapes.

    `again` measures every shape. Without `measure` nothing is run or written, and data only looked for. Raises Mistake.
    """
    states = {job: _state(runner, job) for job in runner.jobs}
    shapes = {job.counted.arm.name: _shape(job) for job in runner.jobs}
    own = {shapes[job.counted.arm.name]: own_source(job.counted.arm.spec) for job in runner.jobs}
    known: dict[str, Pace] = {}
    if not again:
        known = recall(runner.slots, own)
        known |= recorded(runner.options.runs, runner.slots[0], list(shapes.values()))
    stores: dict[str, Store] = {}
    diverged: list[str] = []
    if not measure:
        runner.look()
    else:
        runner.prepare()
        stores = {job.counted.arm.name: runner.store(job) for job in runner.jobs}
        firsts = {shapes[job.counted.arm.name]: job for job in reversed(runner.jobs)}
        unknown = [job for key, job in firsts.items() if key not in known]
        if unknown:
            told = dict(zip([shapes[job.counted.arm.name] for job in unknown], _timed(runner, unknown), strict=True))
            fresh = {key: pace for key, pace in told.items() if pace}
            keep(runner.slots, fresh, own)
            known |= fresh
            diverged = [name for name, key in shapes.items() if key in told.keys() - fresh.keys()]
            if not known:
                raise Mistake(f"{formats.listed(diverged)}: a few steps could not be timed: they diverged")
    starts = [pace.start for pace in known.values() if pace.start]
    start = max(starts) if starts else min(STARTING, time.process_time())
    paces = {name: known[key] for name, key in shapes.items() if key in known}
    specs = {arm.arm.name: arm.arm.spec for arm in runner.arms}
    endings = {name: parts(specs[name], store) for name, store in stores.items()}
    paces = {name: pace.ending(endings[name]) if name in endings else pace for name, pace in paces.items()}
    return Forecast(runner, states, paces, stores, endings, _noise(runner), start, diverged)


def _state(runner: Runner, job: Job) -> str:
    if job.run.owned:
        return "running"
    need = need_of(job, "", runner.sources)
    return "answered" if need == "new" and runner.answered(job) else need


def _timed(runner: Runner, jobs: Sequence[Job]) -> list[Pace | None]:
    """What a few steps of each job tell, with word of which is being timed; each is of another shape."""
    shapes = formats.plural(len(jobs), "shape")
    if not runner.console.live:
        runner.console.say(f"timing a few steps of {shapes}, which takes some seconds each")
    with runner.console.gauges() as gauges:

        def tell(at: int) -> None:
            gauges.set("timing a few steps", at, len(jobs), f"{jobs[at].counted.arm.name}, {at + 1} of {shapes}")
            gauges.show()

        return measured(runner.slots, [(job, runner.store(job)) for job in jobs], runner.planner, tell)


def _shape(job: Job) -> str:
    costs = job.counted.costs
    return shape(job.counted.arm.spec.as_json(), costs.params, costs.flops_per_token)


def _noise(runner: Runner) -> Precedent:
    base = runner.arms[0]
    wanted = Conditions.of(base.arm.spec.as_json(), runner.experiment.metric, base.costs.params, base.steps)
    return precedent(runner.options.runs, wanted)


def kept(arm: Counted) -> int:
    """Bytes that stay of a run of an arm: its weights, its curves, its sources."""
    return WEIGHT * arm.costs.params + LOGGED * min(arm.steps, LINES) + FIXED
