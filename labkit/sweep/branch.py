"""A branch of a sweep: one study, and the arm that its trials change. A search has one, a comparison one an arm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.trial import FrozenTrial

from labkit.report.formats import chosen, difference, figure
from labkit.search.space import Changes, Space
from labkit.search.study import Study, counted, state_of
from labkit.study.experiment import Arm
from labkit.study.names import safe, tails
from labkit.sweep.objectives import Objective
from labkit.tracking.record import Edition


@dataclass(frozen=True, eq=False)
class Branch:
    """Trials that compete with one another."""

    arm: Arm
    study: Study
    space: Space
    objectives: Sequence[Objective]
    trials: int
    """How many that count it is to have."""
    alone: bool
    """Whether it is the only one."""

    @property
    def name(self) -> str:
        return "" if self.alone else self.arm.name

    @property
    def known(self) -> list[FrozenTrial]:
        """Every trial, by number."""
        return self.study.trials

    @property
    def shown(self) -> list[FrozenTrial]:
        """Those that are shown: every trial, or as far as the number asked for where there are more."""
        known = self.known
        beyond = counted(known)[self.trials :]
        return [trial for trial in known if not beyond or trial.number < beyond[0].number]

    @property
    def asked(self) -> int:
        """Trials that count, under way or ended."""
        return len(counted(self.known))

    @property
    def wants(self) -> bool:
        """Whether another trial is to be asked."""
        known = self.known
        if any(state_of(trial) == "waiting" for trial in known):
            return True
        return len(counted(known)) < self.trials and not self.study.exhausted

    @property
    def is_over(self) -> bool:
        known = self.known
        return not self.wants and all(trial.state.is_finished() for trial in known)

    def folder(self, number: int) -> str:
        """What a trial's runs lie under."""
        return f"trial-{number:03d}" if self.alone else f"{self.arm.name}-{number:03d}"

    def label(self, params: Mapping[str, Any]) -> str:
        return safe(short(params))

    def told(self, values: Sequence[float]) -> list[str]:
        """Values of the objectives, each as its key is written."""
        return [figure(one.key, value) for one, value in zip(self.objectives, values, strict=True)]

    def changes(self, trial: FrozenTrial) -> Changes:
        return self.space.changes(trial.params)

    @property
    def ranked(self) -> list[FrozenTrial]:
        """The finished trials of the number asked for, the best first; of several objectives by the first."""
        first = self.objectives[0]
        done = [trial for trial in counted(self.known)[: self.trials] if state_of(trial) == "done"]
        return sorted(done, key=lambda trial: (trial.values[0], trial.number), reverse=first.direction == "maximize")

    @property
    def best(self) -> FrozenTrial | None:
        return next(iter(self.ranked), None)


def base_of(edition: Edition, branch: Branch) -> list[float]:
    """What a search's base came to, by objective; empty where it was not run."""
    found = [run.record() for run in edition.runs() if run.path.parent.name == "baseline"]
    done = [record for record in found if record["status"] == "done"]
    if not done or not branch.alone:
        return []
    return [sum(one.of(record) for record in done) / len(done) for one in branch.objectives]


def beats(branch: Branch, trial: FrozenTrial, base: Sequence[float]) -> bool:
    """Whether a trial is better than the base in the only objective; taken for so where that cannot be told."""
    return len(base) != 1 or branch.objectives[0].better(trial.values[0], base[0])


def standing(branch: Branch, trial: FrozenTrial, base: Sequence[float]) -> str:
    """``+0.0804 to the base's 2.0310: worse``, of the only objective; empty where the base was not run."""
    if len(base) != 1:
        return ""
    objective, ours, theirs = branch.objectives[0], trial.values[0], base[0]
    word = "better" if objective.better(ours, theirs) else "worse" if objective.better(theirs, ours) else "the same"
    return f"{difference(objective.key, ours - theirs)} to the base's {figure(objective.key, theirs)}: {word}"


def short(params: Mapping[str, Any]) -> str:
    """``norm=layer, lr=0.00312``: parameters for people, three digits each."""
    names = tails(params)
    return ", ".join(
        f"{names[name]}={chosen(value)}" if isinstance(value, float) else f"{names[name]}={value}"
        for name, value in params.items()
    )
