"""The best trial of every arm, as arms of an experiment; and whether its range held it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from optuna.trial import FrozenTrial

from labkit.report.formats import chosen, plural
from labkit.search.ranges import Range
from labkit.search.space import refused
from labkit.spec import Mistake
from labkit.study.experiment import Experiment
from labkit.study.loading import Loaded
from labkit.sweep.branch import Branch, short
from labkit.sweep.edges import Numbers, widened
from labkit.train.run import RunSpec

EDGE = (
    "edge: what is best at an end of its range, so that there may be better beyond it; - where nothing is, or nothing "
    "hangs on it."
)
"""What a table of the arms at their best says of its last column."""


@dataclass(frozen=True)
class Winner:
    """An arm at its best setting."""

    branch: Branch
    trial: FrozenTrial
    margin: float = 0.0
    """Nats within which another setting is as good."""

    @property
    def name(self) -> str:
        return self.branch.arm.name

    @property
    def spec(self) -> RunSpec:
        return self.branch.arm.spec.patched(self.branch.changes(self.trial))

    @property
    def told(self) -> str:
        """``lr=0.003, warmup=0.1 (best of 12 trials)``"""
        return f"{short(self.trial.params)} (best of {plural(len(self.branch.ranked), 'trial')})"

    @property
    def edges(self) -> dict[str, str]:
        """Name -> why the best may lie outside the range: it is at an end of it that could be moved."""
        params, ranges = self.trial.params, self.branch.space.parameters(self.trial.params)
        return {
            name: f"{name.rpartition('.')[2]} {chosen(params[name])} at the {end} edge of {_ends(ranges[name])}"
            for name, (end, _) in self._narrow.items()
        }

    @property
    def remedies(self) -> list[str]:
        """What to write for each range that ends too early."""
        return [f"'{name}': {wider.code}" for name, (_, wider) in self._narrow.items()]

    @cached_property
    def _narrow(self) -> dict[str, tuple[str, Numbers]]:
        """Name -> the end that the best is at, and the range that goes on there."""
        ranges = self.branch.space.parameters(self.trial.params)
        found = {
            name: (end, widened(ranges[name], end, lambda value, name=name: self._goes_on(name, value)))
            for name, end in self.branch.space.edges(self.trial.params).items()
            if not self._is_flat(name)
        }
        return {name: (end, wider) for name, (end, wider) in found.items() if wider is not None}

    def _is_flat(self, name: str) -> bool:
        """Whether a trial away from the edge is as good, so that nothing hangs on this parameter."""
        inner = [trial for trial in self.branch.ranked if name not in self.branch.space.edges(trial.params)]
        return bool(inner) and abs(inner[0].values[0] - self.trial.values[0]) <= self.margin

    def _goes_on(self, name: str, value: Any) -> bool:
        """Whether a value outside the range would be a spec as well."""
        params = {**self.trial.params, name: value}
        changes = self.branch.space.walk(lambda one, below: params[one])
        return not refused(self.branch.arm.spec, changes)


def _ends(below: Range) -> str:
    return f"{below.values[0]:g} to {below.values[-1]:g}"


def winners(branches: Sequence[Branch], margin: float) -> list[Winner]:
    """The best trial of every branch that has one, in their order."""
    return [Winner(branch, best, margin) for branch in branches if (best := branch.best) is not None]


def undecided(found: Sequence[Winner]) -> str:
    """Why there is nothing to compare; empty where there is."""
    if not found or found[0].name != "baseline":
        return "baseline: none of its trials came to its end; change the nuisance ranges or the base"
    return "" if len(found) > 1 else "variants: none of their trials came to its end; change the nuisance ranges"


def verdict_of(loaded: Loaded, found: Sequence[Winner]) -> Loaded:
    """The comparison of the winners on the experiment's own seeds; arms whose best is at an edge get no verdict.

    Raises Mistake where the baseline has no winner, or nothing is left to compare with it.
    """
    if why := undecided(found):
        raise Mistake(why)
    experiment = loaded.experiment
    settled = Experiment(
        baseline=found[0].spec,
        variants={winner.name: winner.spec for winner in found[1:]},
        seeds=experiment.seeds,
        metric=experiment.metric,
        match=experiment.match,
        match_by=experiment.match_by,
        tolerance=experiment.tolerance,
        looks=experiment.looks,
        margin=experiment.margin,
        placebo=experiment.placebo,
    )
    tuned = {winner.name: winner.told for winner in found}
    return replace(loaded, experiment=settled, refused=refusals(found), tuned=tuned)


def refusals(found: Sequence[Winner]) -> dict[str, str]:
    """Arm -> why it gets no verdict, and what to write instead."""
    base, *variants = found
    told: dict[str, str] = {}
    for winner in variants:
        why = [*winner.edges.values(), *(f"baseline {edge}" for edge in base.edges.values())]
        remedies = dict.fromkeys([*winner.remedies, *base.remedies])
        if why:
            told[winner.name] = f"best {'; '.join(why)}: write nuisance={{{', '.join(remedies)}}}"
    return told


def rows(branches: Sequence[Branch], found: Sequence[Winner]) -> tuple[list[str], list[list[str]]]:
    """The table of the arms at their best: headers and rows of texts."""
    metric = branches[0].objectives[0].key
    headers = ["arm", "at its best", f"{metric}, tuned", "trials", "edge"]
    best = {winner.name: winner for winner in found}
    return headers, [_row(branch, best.get(branch.arm.name)) for branch in branches]


def _row(branch: Branch, winner: Winner | None) -> list[str]:
    count = str(branch.asked)
    if winner is None:
        return [branch.arm.name, "none came to its end", "-", count, ""]
    edges = ", ".join(winner.edges.values()) or "-"
    return [winner.name, short(winner.trial.params), branch.told(winner.trial.values)[0], count, edges]
