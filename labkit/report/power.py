"""Power: what difference the seeds can show, and how many more would settle what they cannot."""

import math

from scipy.special import chdtri, nctdtr, ndtri

from labkit.report.dunnett import critical, student
from labkit.report.model import INNER

POWER = 0.8

BAND = 0.8
"""The level of the band of further seeds, which comes from that of σ."""

MOST = 1000
"""Seeds, beyond which only "more" is said."""

FAR = 5.0
"""Standard errors from which the chance of the wrong side is nothing, and below what the noncentral t computes."""


def power(effect: float, error: float, arms: int, dof: float, level: float = 0.95) -> float:
    """The probability that the interval of one of `arms` differences excludes 0, its standard error being `error`.

    1 - F(c; ν, δ) + F(-c; ν, δ),  δ = effect / error,  F the noncentral t, c Dunnett's bound.
    """
    bound, shift = critical(level, arms, dof), abs(effect) / error
    return float(1 - nctdtr(dof, shift, bound) + (nctdtr(dof, shift, -bound) if shift < FAR else 0))


def resolvable(error: float, arms: int, dof: float, level: float = 0.95) -> float:
    """The difference that is shown with 80 % power at a standard error, in its unit; NaN without degrees of freedom."""
    if not (dof > 0 and error > 0 and arms):
        return math.nan
    low, high = 0.0, 10 * critical(level, arms, dof)
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle, 1.0, arms, dof, level) < POWER else (low, middle)
    return high * error


def tied(error: float, dof: float) -> float:
    """The margin within which a difference that is truly 0 is shown to tie with 80 % power, at a standard error.

    The 90 % interval d ± t s lies within ± M where |d| < M - t s, and |d| < z s in 80 % of experiments.
    """
    return (student(INNER, dof) + float(ndtri((1 + POWER) / 2))) * error


def settling(effect: float, margin: float, sigma: float, dof: float, *, arms: int, variants: int) -> tuple[int, int]:
    """How many seeds in all would settle a difference of `effect`: the ends of an 80 % band, `MOST` + 1 for more.

    Settled is what excludes 0 or lies within ± margin when the estimates stay as they are. σ² is uncertain:
    σ² ν / χ²_ν at its 10 % and 90 % quantiles. `arms` are compared and `variants` pooled.
    """
    tail = (1 - BAND) / 2
    low, high = (sigma * math.sqrt(dof / float(chdtri(dof, quantile))) for quantile in (tail, 1 - tail))
    return _seeds(effect, margin, low, arms, variants), _seeds(effect, margin, high, arms, variants)


def _seeds(effect: float, margin: float, sigma: float, arms: int, variants: int) -> int:
    """The fewest seeds that settle it, by halving: once enough, more are enough."""
    few, enough = 1, MOST + 1
    while enough - few > 1:
        middle = (few + enough) // 2
        dof = (middle - 1) * variants
        error = sigma * math.sqrt(2 / middle)
        clear = abs(effect) > critical(0.95, arms, dof) * error
        tied = abs(effect) + student(INNER, dof) * error < margin
        few, enough = (few, middle) if clear or tied else (middle, enough)
    return enough
