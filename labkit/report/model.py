"""One linear model for the whole experiment, arm + seed, and the differences to the baseline that it gives.

A table y_AS holds a row an arm, the baseline first, and a column a seed; NaN stands where a run has no result.

    y_as = μ_a + β_s + ε_as,    ε_as ~ N(0, σ²)

What a seed does to all arms alike, β_s, takes no part in a difference; σ is what is left, pooled over the arms, with
N - rank degrees of freedom: (n - 1) · variants where every arm has the same n seeds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from labkit.report.dunnett import HALF, critical, student
from labkit.report.statistics import Difference

Table = NDArray[np.float64]

UNSTABLE = 3.0
"""An arm whose spread is over so many medians keeps its own variance."""

CHANCE = 0.01
"""How seldom any arm is to be called unstable for nothing: few seeds often scatter by more than three medians."""

NOISY = 0.05
"""How seldom a baseline is to be taken for noisier than its variants for nothing."""

NOISIER = 0.01
"""The same of each variant beside the others."""

INNER = 0.90
"""The level of the interval that shows a tie: two one-sided tests at 5 % (Schuirmann 1987)."""


class Measured(Protocol):
    """An arm with its results."""

    @property
    def finals(self) -> Mapping[int, float]:
        """Seed -> value."""
        ...


def table(arms: Sequence[Measured]) -> Table:
    """Arms × seeds, ascending; NaN where there is no result."""
    seeds = sorted({seed for arm in arms for seed in arm.finals})
    return np.array([[arm.finals.get(seed, math.nan) for seed in seeds] for arm in arms]).reshape(len(arms), -1)


@dataclass(frozen=True)
class Noise:
    """What the seeds leave, as standard deviations, and how well they are known."""

    sigma: float
    """Of a run, pooled over the arms that are alike."""
    dof: int
    pair: float
    """Of a difference to the baseline: √2 σ, or more where the baseline is noisier than its variants."""
    noisier: frozenset[int] = frozenset()
    """The rows whose differences vary as much as their own pairs do, where that is more."""
    unstable: frozenset[int] = frozenset()
    """The rows that keep their own variance."""

    def at(self, rows: Sequence[int]) -> "Noise":
        """The same for a table of which these rows were looked at."""
        noisier, unstable = (frozenset(rows[row] for row in each) for each in (self.noisier, self.unstable))
        return replace(self, noisier=noisier, unstable=unstable)


def residual(y_AS: Table) -> tuple[float, int]:
    """σ and its degrees of freedom by least squares of arm + seed; (NaN, 0) where nothing is left over."""
    rows, columns = np.nonzero(~np.isnan(y_AS))
    values = y_AS[rows, columns]
    if not values.size:
        return math.nan, 0
    design = np.concatenate([rows[:, None] == np.unique(rows), columns[:, None] == np.unique(columns)], axis=1)
    values = values - values.mean()
    fitted, _, rank, _ = np.linalg.lstsq(design.astype(float), values, rcond=None)
    dof = int(values.size - rank)
    left = values - design @ fitted
    return (math.sqrt(float(left @ left) / dof), dof) if dof else (math.nan, 0)


def noise(y_AS: Table) -> Noise:
    """The noise of an experiment.

    Whether a row adds more to the squares left over than a row like the others would is tested exactly (F). The
    differences of a variant that does vary as much as its own pairs, if that is more; a baseline that does is in all of
    them, so its variance and the variants' are then two. A variant whose spread is over three times the median too
    keeps its own variance, and σ is pooled over the rest.
    """
    shared_AS = y_AS[:, ~np.isnan(y_AS).any(axis=0)]
    own, chances = spreads(shared_AS), _chances(shared_AS)
    wide = (own > UNSTABLE * np.median(own)) & (chances < CHANCE / len(y_AS))
    unstable = frozenset(int(row) for row in np.flatnonzero(wide) if row)
    alike = [row for row in range(len(y_AS)) if row not in unstable]
    sigma, dof = residual(y_AS[alike])
    pair = _apart(shared_AS[alike]) if chances[0] < NOISY and len(alike) > 1 else math.sqrt(2) * sigma
    noisier = frozenset(int(row) for row in np.flatnonzero(chances < NOISIER))
    return Noise(sigma, dof, pair, noisier, unstable)


def spreads(shared_AS: Table) -> Table:
    """Each arm's own standard deviation over seeds that all arms have, what the seeds do to all being taken out.

    σ_a² = (Σ_b V_ab - Σ_{b<c} V_bc / (A - 1)) / (A - 2),  V_ab the variance of a - b  (Grubbs 1948); at least 0.
    NaN for fewer than three arms, whose shares in their differences cannot be told apart, or two seeds.
    """
    arms, seeds = shared_AS.shape
    if arms < 3 or seeds < 2:
        return np.full(arms, math.nan)
    covariance = np.cov(shared_AS)
    own = np.diag(covariance)
    pairs = own[:, None] + own[None, :] - 2 * covariance
    return np.sqrt(np.maximum(0.0, (pairs.sum(axis=1) - pairs.sum() / 2 / (arms - 1)) / (arms - 2)))


def _chances(shared_AS: Table) -> Table:
    """How likely a row of noise like the others' adds as much to the squares left over: F with n - 1 degrees above.

    Leaving row a out takes A / (A - 1) Σ_s r_as² from them, r being what arm + seed leaves.
    """
    arms, seeds = shared_AS.shape
    if arms < 3 or seeds < 2:
        return np.ones(arms)
    left = shared_AS - shared_AS.mean(axis=1, keepdims=True)
    left = left - left.mean(axis=0)
    own = arms / (arms - 1) * (left**2).sum(axis=1)
    others = np.maximum((left**2).sum() - own, np.finfo(float).tiny)
    return fdtrc(seeds - 1, (seeds - 1) * (arms - 2), own * (arms - 2) / others)


def _apart(shared_AS: Table) -> float:
    """A difference's standard deviation, √(σ_0² + σ²), where the baseline's variance is its own.

    The baseline against the variants' mean varies by σ_0² + σ² / k, and the variants around their mean by (1 - 1/k) σ².
    """
    between = float(np.var(shared_AS[1:].mean(axis=0) - shared_AS[0], ddof=1))
    rest, few = residual(shared_AS[1:])
    return math.sqrt(between + (1 - 1 / (len(shared_AS) - 1)) * (rest**2 if few else 0.0))


@dataclass(frozen=True)
class Family:
    """The comparisons that an interval is simultaneous over."""

    size: int
    correlation: float = HALF
    """Of any two of the differences, at least."""


ALONE = Family(1)


def family(y_AS: Table) -> Family:
    """All rows against the first.

    Two differences correlate by m / 2√(n_a n_b) where m seeds are in both: half where all have the same seeds. The
    least of them is taken for all, which makes the intervals rather too wide.
    """
    there = (~np.isnan(y_AS[1:] - y_AS[0])).astype(float)
    there = there[there.any(axis=1)]
    shared = there @ there.T
    n = np.sqrt(np.diag(shared))
    return Family(len(y_AS) - 1, float((HALF * shared / np.outer(n, n)).min(initial=HALF)))


def against(y_AS: Table, row: int, found: Noise, family: Family, level: float) -> Difference:
    """A row's difference to the baseline over the seeds that both have.

    Its interval is simultaneous over the family at `level`. An arm that keeps its own variance has that of its own
    pairs, with n - 1 degrees of freedom.
    """
    pairs_S = y_AS[row] - y_AS[0]
    pairs = pairs_S[~np.isnan(pairs_S)]
    n, own = len(pairs), row in found.unstable
    spread = float(np.std(pairs, ddof=1)) if n > 1 else math.nan
    pair = max(found.pair, spread) if row in found.noisier else found.pair
    deviation, dof = (spread, n - 1) if own else (pair, found.dof)
    error = deviation / math.sqrt(n) if n else math.nan
    bound = critical(level, family.size, dof, family.correlation) if n > 1 else math.nan
    inner = student(INNER, dof) if n > 1 else math.nan
    mean = float(pairs.mean()) if n else math.nan
    return Difference(
        mean=mean,
        low=mean - bound * error,
        high=mean + bound * error,
        n=n,
        spread=spread,
        error=error,
        dof=dof,
        inner=(mean - inner * error, mean + inner * error),
        unstable=own,
    )


def removed(y_AS: Table) -> float:
    """The share of the variance of a difference that pairing by seed took away: 1 - σ² / (variance within arms).

    Negative where the seeds have nothing in common; NaN without seeds enough.
    """
    sigma, dof = residual(y_AS)
    rows: Sequence[Any] = [row[~np.isnan(row)] for row in y_AS]
    spare = sum(len(row) - 1 for row in rows if len(row))
    within = sum(float(((row - row.mean()) ** 2).sum()) for row in rows if len(row))
    return 1 - sigma**2 / (within / spare) if dof and within > 0 else math.nan
