"""Dunnett's many-against-one: how far the largest of several t statistics that share a baseline strays by chance.

With T_i = X_i / S, X equicorrelated normal (ρ = ½ where all arms have the same seeds), S = √(χ²_ν / ν):

    P(max |T_i| ≤ c) = ∫ f_S(s) ∫ φ(y) [Φ((c s + √ρ y) / √(1-ρ)) - Φ((-c s + √ρ y) / √(1-ρ))]^k dy ds

(Dunnett 1955, "A multiple comparison procedure for comparing several treatments with a control").
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import chdtri, gammaln, ndtr, stdtr, stdtrit  # scipy.stats takes a second to import

HALF = 0.5
"""The correlation of two differences to one baseline, all arms having the same seeds."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_FAR, _TAIL = 9.0, 1e-15
_CLOSE = 1e-9


def within(bound: float, arms: int, dof: float, correlation: float = HALF) -> float:
    """The probability that none of `arms` differences is further than `bound` standard errors from the truth."""
    if arms == 1:
        return 1 - 2 * float(stdtr(dof, -bound))
    y, of_y = _FAR * _NODES, _FAR * _WEIGHTS * np.exp(-0.5 * (_FAR * _NODES) ** 2) / math.sqrt(2 * math.pi)
    s, of_s = _scales(dof)
    shift, unit = math.sqrt(correlation) * y, math.sqrt(1 - correlation)
    reach = bound * s[:, None]
    under = ndtr((reach + shift) / unit)
    each = under + under[:, ::-1] - 1  # the nodes are symmetric: Φ((-c s + √ρ y) / …) = 1 - Φ((c s - √ρ y) / …)
    return float(of_s @ each**arms @ of_y)


@lru_cache(maxsize=4096)
def critical(level: float, arms: int, dof: float, correlation: float = HALF) -> float:
    """The bound that all of `arms` differences keep with probability `level`, in standard errors.

    Found between the bound for one arm and Šidák's for independent ones by the Illinois rule. NaN without degrees of
    freedom or arms.
    """
    if dof <= 0 or arms < 1:
        return math.nan
    kept, last = student(level, dof), student(level ** (1 / arms), dof)
    if arms == 1:
        return last
    under, over = (within(bound, arms, dof, correlation) - level for bound in (kept, last))
    while abs(over) > _CLOSE * (1 - level) and abs(last - kept) > _CLOSE:
        middle = last - over * (last - kept) / (over - under)
        here = within(middle, arms, dof, correlation) - level
        kept, under = (last, over) if here * over < 0 else (kept, under / 2)
        last, over = middle, here
    return last


def student(level: float, dof: float) -> float:
    """The two-sided bound of one t statistic, t_{(1 + level) / 2, dof}."""
    return float(stdtrit(dof, (1 + level) / 2)) if dof > 0 else math.nan


@lru_cache(maxsize=256)
def _scales(dof: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of S and their weights with its density, 2 (ν/2)^{ν/2} s^{ν-1} e^{-ν s²/2} / Γ(ν/2)."""
    most = math.sqrt(float(chdtri(dof, _TAIL)) / dof)
    least = math.sqrt(float(chdtri(dof, 1 - _TAIL)) / dof) if dof > 2 else 0.0
    s = least + (most - least) * (_NODES + 1) / 2
    log = math.log(2) + dof / 2 * math.log(dof / 2) - float(gammaln(dof / 2)) + (dof - 1) * np.log(s) - dof * s**2 / 2
    return s, np.exp(log) * _WEIGHTS * (most - least) / 2
