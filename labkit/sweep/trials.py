"""From what was asked to a run spec that is counted; and what every view is told of the trials."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.search.space import refused
from labkit.search.study import Asked
from labkit.spec import Mistake
from labkit.study.counting import QUIET, Counted, counted
from labkit.study.experiment import Arm, Experiment
from labkit.study.matching import matched
from labkit.study.names import at
from labkit.sweep.branch import Branch
from labkit.sweep.constraints import Constraints, broken
from labkit.sweep.folders import Folders
from labkit.sweep.objectives import Objective
from labkit.tracking.progress import Progress
from labkit.train.run import RunSpec


@dataclass(frozen=True)
class Trials:
    """What all trials of a sweep have in common."""

    sweep: str
    """Its title."""
    experiment: Experiment
    """How trials are matched."""
    base: Path
    """The folder that relative paths in specs start from."""
    baseline: Counted
    objectives: Sequence[Objective]
    seeds: Sequence[int]
    command: str
    facts: Mapping[str, Any]
    """What the description says beside the arms."""
    constraints: Constraints = field(default_factory=dict[str, Callable[[RunSpec], bool]])
    progress: Progress = QUIET

    def counted(self, branch: Branch, asked: Asked) -> Counted | str:
        """The arm of a trial with what it costs, or why it is invalid."""
        if fault := refused(branch.arm.spec, asked.changes):
            return fault
        spec = branch.arm.spec.patched(asked.changes)
        if fault := broken(self.constraints, spec):
            return fault
        try:
            return self._matched(Arm(branch.folder(asked.number), spec, asked.changes), branch)
        except Mistake as fault:
            return str(fault).partition(": ")[2] or str(fault)

    def written(self, paths: Iterable[str], spec: RunSpec) -> dict[str, Any]:
        """What a spec has at paths where trials choose, in their words; a place that it has not is left out."""
        found: dict[str, Any] = {}
        for path in paths:
            with suppress(LookupError):
                value = at(spec, path)
                found[path] = getattr(value, "kind", value)
        return found

    def tags(self, branch: Branch | None, asked: Asked | None) -> dict[str, str]:
        """What MLflow's runs are told apart by."""
        if branch is None or asked is None:
            return {"sweep": self.sweep}
        study = {"sweep": self.sweep, "study": branch.study.search.name, "trial": str(asked.number)}
        return study | {"choices": branch.label(asked.params)} | ({"arm": branch.name} if branch.name else {})

    def describe(self, folders: Folders) -> None:
        folders.describe(self.baseline, self.facts, self.command)

    def _matched(self, arm: Arm, branch: Branch) -> Counted:
        """In a search each trial is brought to the base's size; the arms of a comparison are already."""
        if not branch.alone:
            return counted(arm, self.base, self.progress)
        return beside(branch.arm.spec, arm, self.experiment, self.base, self.progress)


def beside(baseline: RunSpec, arm: Arm, experiment: Experiment, base: Path, progress: Progress = QUIET) -> Counted:
    """An arm brought to the baseline's size as an experiment brings its own. Raises Mistake where it cannot be."""
    if experiment.match == "none":
        return counted(arm, base, progress)
    pair = Experiment(
        baseline=baseline,
        variants={arm.name: arm.changes},
        seeds=1,
        metric=experiment.metric,
        match=experiment.match,
        match_by=experiment.match_by,
        tolerance=experiment.tolerance,
    )
    found = matched(pair, base, progress)
    return found[1] if len(found) > 1 else counted(arm, base, progress)
