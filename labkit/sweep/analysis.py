"""What the trials of a branch say: which choices matter, each choice at its best, what pruning saved, whom it met."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial

from labkit.report.formats import chosen, plural
from labkit.search.quiet import unwarned
from labkit.search.ranges import Choices, Range
from labkit.search.space import Space
from labkit.search.study import counted, state_of
from labkit.spec import shown
from labkit.sweep.branch import Branch

DRAWS = 60
"""Times that the trials are drawn again, for the interval of an importance."""

EACH = 10
"""Finished trials for each choice searched, below which nothing is said of importance.

Ten runs a dimension are what a first look at how a function depends on its inputs takes (Loeppky, Sacks and Welch 2009,
Technometrics 51: "Choosing the sample size of a computer experiment").
"""

TENTH, TOP = 0.1, 5
"""What importance tells from all trials: the best tenth, and no fewer than five, which Optuna asks for as well."""

FEW = 5
"""Trials of a value below which its best is mostly luck.

Of n random settings one at least lies in the best share q with chance 1 - (1 - q)^n (Bergstra and Bengio 2012, JMLR
13): five reach the better half by 97 %, two by 75 %; and the best of more trials is better for their number alone
(Dodge et al., arXiv:1909.03004).
"""

CLOSEST = 5
"""Of so many of the best it is said how near they came to being pruned."""


@dataclass(frozen=True)
class Importance:
    """The share of a parameter in what makes the best trials better than all (PED-ANOVA, arXiv:2304.10255)."""

    name: str
    share: float
    low: float
    high: float
    """The ends of its 90 % interval over bootstrap draws of the trials."""


@dataclass(frozen=True)
class AtBest:
    """One value of a choice, at the best that was found with it."""

    name: str
    value: Any
    trials: int
    best: FrozenTrial

    @property
    def told(self) -> str:
        """``7``, or ``2, too few``: with how many trials it was tried."""
        return f"{self.trials}{', too few' if self.trials < FEW else ''}"


@dataclass(frozen=True)
class Narrow:
    """How near a trial came to being pruned: where the most others were ahead of it."""

    trial: FrozenTrial
    point: int
    ahead: float
    """The share of the other trials that were better at this point."""


@dataclass(frozen=True)
class Where:
    """The part of a parameter's range in which trials diverged, beside that in which others came to a value."""

    name: str
    diverged: str
    sound: str


@dataclass(frozen=True)
class Saved:
    """Steps of training that pruning left out."""

    made: int
    planned: int

    @property
    def share(self) -> float:
        return 1 - self.made / self.planned if self.planned else 0.0


def importances(branch: Branch, seed: int = 0) -> list[Importance]:
    """The most important parameter first; empty where there are too few trials, or all have the same values."""
    done = branch.ranked
    if len(done) < needed(branch):
        return []
    shares = _shares(branch, done)
    draw = np.random.default_rng(seed)
    again = [_shares(branch, [done[i] for i in draw.integers(len(done), size=len(done))]) for _ in range(DRAWS)]
    found: list[Importance] = []
    for name, share in shares.items():
        values = [one.get(name, 0.0) for one in again if one]
        low, high = np.quantile(values, (0.05, 0.95)) if values else (math.nan, math.nan)
        found.append(Importance(name, share, float(low), float(high)))
    return sorted(found, key=lambda one: -one.share)


def needed(branch: Branch) -> int:
    """From how many finished trials on importance is told: `EACH` for each choice that has more than one value."""
    return EACH * sum(below.count != 1 for below in branch.space.every.values())


def untold(branch: Branch) -> str:
    """That the trials are too few to tell what matters, and how many do; empty where they are enough."""
    done, least = len(branch.ranked), needed(branch)
    if not 0 < done < least:
        return ""
    says = "says" if done == 1 else "say"
    return f"{plural(done, 'finished trial')} {says} nothing yet of what matters: from {least} on, {EACH} a choice"


def _shares(branch: Branch, trials: Sequence[FrozenTrial]) -> dict[str, float]:
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances  # seconds, for scikit-learn

    study = optuna.create_study(directions=[one.direction for one in branch.objectives])
    study.add_trials(trials)
    sign = 1 if branch.objectives[0].direction == "minimize" else -1
    with unwarned(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the target is taken for one to be low, which it is
        try:
            evaluator = PedAnovaImportanceEvaluator(target_quantile=max(TENTH, TOP / len(trials)))
            return get_param_importances(study, evaluator=evaluator, target=lambda one: sign * one.values[0])
        except (RuntimeError, ValueError):  # all of one value
            return {}


def at_best(branch: Branch, space: Space) -> list[AtBest]:
    """For every value of the space's choices: the best trial that has it, the best value first."""
    found: list[AtBest] = []
    for name, below in space.every.items():
        if below.count is None:
            continue
        rows: list[AtBest] = []
        for value in below.values:
            having = [trial for trial in branch.ranked if name in trial.params and trial.params[name] == value]
            if having:
                rows.append(AtBest(name, value, len(having), having[0]))
        order = {trial.number: place for place, trial in enumerate(branch.ranked)}
        found += sorted(rows, key=lambda row: order[row.best.number]) if len(rows) > 1 else []
    return found


def saved(branches: Sequence[Branch]) -> Saved:
    """Over all trials that were trained."""
    runs = [trial.user_attrs["run"] for branch in branches for trial in branch.shown if "run" in trial.user_attrs]
    pruned = [trial.user_attrs["run"] for branch in branches for trial in branch.shown if state_of(trial) == "pruned"]
    made = sum(run["steps"] for run in runs) - sum(run["steps"] - run["step"] for run in pruned if run)
    return Saved(made, sum(run["steps"] for run in runs))


def narrow(branch: Branch) -> list[Narrow]:
    """The best trials, each where it stood worst among the others that were measured there."""
    first = branch.study.search.method.pruner.first(branch.study.search.points)
    sign = 1 if branch.objectives[0].direction == "minimize" else -1
    others = [trial for trial in counted(branch.shown) if trial.intermediate_values]
    found: list[Narrow] = []
    for trial in branch.ranked[:CLOSEST]:
        places = [(_ahead(trial, point, others, sign), point) for point in trial.intermediate_values if point >= first]
        if places:
            ahead, point = max(places, key=lambda place: (place[0], -place[1]))
            found.append(Narrow(trial, point, ahead))
    return found


def _ahead(trial: FrozenTrial, point: int, others: Sequence[FrozenTrial], sign: int) -> float:
    there = [one for one in others if point in one.intermediate_values and one.number != trial.number]
    mine = sign * trial.intermediate_values[point]
    return sum(sign * one.intermediate_values[point] < mine for one in there) / len(there) if there else 0.0


def untried(branch: Branch, compared: Space) -> list[dict[str, Any]]:
    """The combinations of a finite space that no trial has come to; empty for one that cannot be counted."""
    if not compared.ranges or compared.size is None:
        return []
    ended = [trial for trial in branch.shown if trial.state.is_finished() and state_of(trial) != "failed"]
    tried = {_key({name: trial.params[name] for name in compared.every if name in trial.params}) for trial in ended}
    return [point for point in compared.points() if _key(point) not in tried]


def _key(params: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((name, repr(value)) for name, value in params.items())


def lost(branch: Branch) -> list[tuple[FrozenTrial, str]]:
    """The trials that came to no value, with what became of them: diverged, failed, invalid."""
    return [(trial, state) for trial in branch.shown if (state := state_of(trial)) in ("diverged", "failed", "invalid")]


def diverging(branch: Branch) -> list[Where]:
    """For every parameter where trials diverged and where others did not; empty where none did."""
    known = counted(branch.shown)
    ended = {state: [trial for trial in known if state_of(trial) == state] for state in ("diverged", "done", "pruned")}
    sound = ended["done"] + ended["pruned"]
    if not ended["diverged"]:
        return []
    return [
        Where(name, _held(below, name, ended["diverged"]), _held(below, name, sound))
        for name, below in branch.space.every.items()
        if any(name in trial.params for trial in ended["diverged"])
    ]


def _held(below: Range, name: str, trials: Sequence[FrozenTrial]) -> str:
    """``0.21 to 0.38``, or how often each choice: ``rms 3, layer 1``."""
    values = [trial.params[name] for trial in trials if name in trial.params]
    if not values:
        return ""
    if isinstance(below, Choices):
        return ", ".join(f"{shown(value)} {values.count(value)}" for value in below.values if value in values)
    low, high = map(chosen, (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def reasons(branches: Sequence[Branch]) -> Mapping[str, int]:
    """Why combinations were invalid -> how often."""
    found: dict[str, int] = {}
    for branch in branches:
        for trial, state in lost(branch):
            if state == "invalid":
                why = str(trial.user_attrs.get("why", "")).partition("\n")[0]
                found[why] = found.get(why, 0) + 1
    return dict(sorted(found.items(), key=lambda one: -one[1]))
