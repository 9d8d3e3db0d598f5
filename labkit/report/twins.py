"""Arms that are one model under two names: their runs came to the same digits, document by document.

A change that changes nothing leaves the same losses, and their differences no noise: counted among the arms they would
lend the others degrees of freedom that nobody measured.
"""

from collections.abc import Sequence

import numpy as np

from labkit.report.arms import Arm


def twins(arms: Sequence[Arm]) -> dict[int, str]:
    """Place of an arm -> the name of the earlier one that it equals; those that equal none are left out."""
    found: dict[int, str] = {}
    for place, arm in enumerate(arms):
        earlier = (other for at, other in enumerate(arms[:place]) if at not in found)
        name = next((other.name for other in earlier if _are_equal(arm, other)), "")
        if name:
            found[place] = name
    return found


def _are_equal(arm: Arm, other: Arm) -> bool:
    """Whether all seeds that both ended, one at least, scored every document alike to the last bit."""
    here, there = ({run.seed: run for run in each.done} for each in (arm, other))
    shared = here.keys() & there.keys()
    if any(arm.finals.get(seed) != other.finals.get(seed) for seed in shared):
        return False
    scores = [(here[seed].documents, there[seed].documents) for seed in shared]
    return bool(scores) and all(
        mine and mine.keys() == theirs.keys() and all(np.array_equal(mine[x].nats, theirs[x].nats) for x in mine)
        for mine, theirs in scores
    )
