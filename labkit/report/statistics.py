"""Statistics of an ablation: seeds are paired, and one seed says nothing about the noise."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Interval = tuple[float, float]

NOWHERE: Interval = (math.nan, math.nan)


@dataclass(frozen=True)
class Difference:
    """The mean of n paired differences with its intervals; NaN stands for what n values cannot tell."""

    mean: float = math.nan
    low: float = math.nan
    """From here to `high` is the simultaneous interval, at the level of the look."""
    high: float = math.nan
    n: int = 0
    spread: float = math.nan
    """The standard deviation of the differences over the seeds."""
    error: float = math.nan
    """The standard error of the mean."""
    dof: int = 0
    """Of the standard error."""
    inner: Interval = NOWHERE
    """The 90 % interval of this difference alone, which shows a tie."""
    unstable: bool = False
    """Whether the arm's noise is out of all proportion, so that the standard error rests on these pairs alone."""

    @property
    def has_interval(self) -> bool:
        """Whether there are seeds enough (two) to measure the noise."""
        return self.n > 1

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


UNCOMPARED = Difference()
"""Of what is compared with nothing."""


def none(n: int) -> Difference:
    """Of n pairs that are equal because the two are one."""
    return Difference(mean=0.0, low=0.0, high=0.0, n=n, spread=0.0, error=0.0, inner=(0.0, 0.0))


def differences(values: Mapping[int, float], baseline: Mapping[int, float]) -> list[float]:
    """Value minus baseline for every seed that both have, by ascending seed."""
    return [values[seed] - baseline[seed] for seed in sorted(values.keys() & baseline.keys())]


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean; NaN of nothing."""
    kept = list(values)
    return math.fsum(kept) / len(kept) if kept else math.nan


def spread(values: Iterable[float]) -> float:
    """The sample standard deviation, √(Σ (x - mean)² / (n - 1)); NaN of fewer than two."""
    kept = list(values)
    center = mean(kept)
    return (
        math.sqrt(math.fsum((value - center) ** 2 for value in kept) / (len(kept) - 1)) if len(kept) > 1 else math.nan
    )
