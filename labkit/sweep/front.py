"""The Pareto front: the trials that no other one beats in everything."""

from optuna.trial import FrozenTrial

from labkit.sweep.branch import Branch


def front(branch: Branch) -> list[FrozenTrial]:
    """In the order of the first objective; of a single objective the best alone."""
    done = branch.ranked
    return [trial for trial in done if not any(_beats(branch, other, trial) for other in done)]


def _beats(branch: Branch, one: FrozenTrial, other: FrozenTrial) -> bool:
    """Whether it is nowhere worse, and somewhere better."""
    pairs = list(zip(branch.objectives, one.values, other.values, strict=True))
    worse = any(objective.better(theirs, ours) for objective, ours, theirs in pairs)
    return not worse and any(objective.better(ours, theirs) for objective, ours, theirs in pairs)
