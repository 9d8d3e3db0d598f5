"""Statistics of an ablation: seeds are paired, and one seed says nothing about the noise."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit  # scipy.stats takes a second to import

LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """The mean of n paired differences with its interval; NaN stands for what n values cannot tell."""

    mean: float
    low: float
    high: float
    n: int
    spread: float
    """The standard deviation of the differences over the seeds."""

    @property
    def has_interval(self) -> bool:
        """Whether there are seeds enough (two) to measure the noise."""
        return self.n > 1

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def paired(differences: Sequence[float], level: float = LEVEL) -> Difference:
    """The mean difference over seeds and its two-sided t interval.

    mean ± t_{(1 + level) / 2, n - 1} · sd / √n  (Student 1908). One difference has no interval, none has no mean.
    """
    n, center, sd = len(differences), mean(differences), spread(differences)
    half = float(stdtrit(n - 1, (1 + level) / 2)) * sd / math.sqrt(n) if n > 1 else math.nan
    return Difference(mean=center, low=center - half, high=center + half, n=n, spread=sd)


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
