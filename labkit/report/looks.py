"""Looks: how far each look at the data may go, so that all of them together keep 5 %.

The chance of a false word spent by the look at n of N seeds is 5 % · (n / N)²: little early, nearly all at the end
(power spending, Kim and DeMets 1987). Which bound spends just that is simulated for the experiment's own model: the
largest pooled |t| over the variants at every look, in experiments where nothing differs.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from labkit.report.dunnett import within

LEVEL = 0.95

SIMULATED = 40_000
"""Experiments; the whole then keeps 5 % to within 0.1 points."""

BATCH = 4_000
"""So many at a time, for the memory's sake."""


@lru_cache(maxsize=64)
def levels(looks: tuple[int, ...], variants: int, arms: int) -> tuple[float, ...]:
    """The level of the simultaneous intervals at each look (seeds, ascending) at `variants` of `arms` in all.

    `arms` counts the baseline and the placebos too: all of them pool into σ.
    """
    if len(looks) < 2 or variants < 1:
        return (LEVEL,) * len(looks)
    largest = np.concatenate([_largest(looks, variants, arms, seed) for seed in range(SIMULATED // BATCH)])
    found: list[float] = []
    spent, alive = 0.0, np.ones(len(largest), dtype=bool)
    for at, seeds in enumerate(looks):
        whole = (1 - LEVEL) * (seeds / looks[-1]) ** 2
        crossing = round((whole - spent) * len(largest))
        bound = float(np.sort(largest[alive, at])[-crossing - 1])
        found.append(within(bound, variants, (seeds - 1) * (arms - 1)))
        alive &= largest[:, at] <= bound
        spent = 1 - alive.mean()
    return tuple(found)


def _largest(looks: Sequence[int], variants: int, arms: int, seed: int) -> NDArray[np.float64]:
    """The largest |t| of the variants in experiments × looks, nothing differing.

    The seeds between two looks enter by their sum an arm and the squares around it, which are independent.
    """
    random, n = np.random.default_rng(seed), np.array(looks)
    more = np.diff(n, prepend=0)
    sums = random.standard_normal((BATCH, len(n), arms)) * np.sqrt(more)[:, None]
    sums -= sums.mean(axis=2, keepdims=True)
    around = 2 * random.standard_gamma((more - 1) * (arms - 1) / 2, size=(BATCH, len(n)))
    squares = ((sums**2).sum(axis=2) / more + around).cumsum(axis=1)
    sums = sums.cumsum(axis=1)
    sigma = np.sqrt((squares - (sums**2).sum(axis=2) / n) / ((n - 1) * (arms - 1)))
    t = (sums[:, :, 1 : variants + 1] - sums[:, :, :1]) / (sigma * np.sqrt(2 * n))[:, :, None]
    return np.abs(t).max(axis=2)
