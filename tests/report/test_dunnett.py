import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import ndtr

from labkit.report.dunnett import critical, student, within


def by_quadrature(bound: float, arms: int, dof: int, correlation: float) -> float:
    """The same probability by adaptive quadrature, with scipy's densities."""
    root, unit = math.sqrt(correlation), math.sqrt(1 - correlation)

    def given(s: float) -> float:
        def at(y: float) -> float:
            return (
                math.exp(-y * y / 2)
                / math.sqrt(2 * math.pi)
                * (ndtr((bound * s + root * y) / unit) - ndtr((root * y - bound * s) / unit)) ** arms
            )

        return integrate.quad(at, -9, 9, epsabs=1e-10)[0] * stats.chi.pdf(s * math.sqrt(dof), dof) * math.sqrt(dof)

    return integrate.quad(given, 0, 12, epsabs=1e-9, limit=100, points=[1.0])[0]


@pytest.mark.parametrize(("arms", "dof", "correlation"), [(2, 2, 0.5), (4, 16, 0.5), (20, 100, 0.5), (3, 9, 0.2)])
def test_the_bound_keeps_its_level_by_an_independent_quadrature(arms: int, dof: int, correlation: float) -> None:
    assert by_quadrature(critical(0.95, arms, dof, correlation), arms, dof, correlation) == pytest.approx(
        0.95, abs=1e-7
    )


@pytest.mark.parametrize(
    ("arms", "dof", "bound"),
    [(2, 5, 3.03), (3, 10, 2.76), (4, 10, 2.89), (5, 10, 2.99), (2, 20, 2.38), (4, 20, 2.65), (3, 10**6, 2.35)],
)
def test_the_bounds_are_those_of_dunnetts_tables(arms: int, dof: int, bound: float) -> None:
    assert critical(0.95, arms, dof) == pytest.approx(bound, abs=0.0051)


def test_the_chances_are_those_of_scipys_dunnett() -> None:
    random = np.random.default_rng(4)
    control, *others = samples = random.normal([0, 0.5, 1.0, 1.5], 1.0, size=(6, 4)).T
    theirs = stats.dunnett(*others, control=control, rng=random)
    sigma = math.sqrt(np.mean([np.var(sample, ddof=1) for sample in samples]))
    t = [(other.mean() - control.mean()) / (sigma * math.sqrt(2 / 6)) for other in others]
    assert [1 - within(abs(one), 3, 20) for one in t] == pytest.approx(theirs.pvalue, abs=3e-4)


@pytest.mark.parametrize("dof", [1, 2, 4, 30])
def test_one_arm_has_students_bound(dof: int) -> None:
    assert critical(0.95, 1, dof) == pytest.approx(stats.t.ppf(0.975, dof), rel=1e-9)
    assert student(0.90, dof) == pytest.approx(stats.t.ppf(0.95, dof), rel=1e-9)


def test_more_arms_and_fewer_degrees_of_freedom_ask_for_more() -> None:
    assert [critical(0.95, arms, 8) for arms in range(1, 9)] == sorted(critical(0.95, arms, 8) for arms in range(1, 9))
    assert critical(0.95, 3, 1) > critical(0.95, 3, 2) > critical(0.95, 3, 50)
    assert critical(0.95, 3, 8, 0.0) > critical(0.95, 3, 8, 0.5)


def test_without_degrees_of_freedom_there_is_no_bound() -> None:
    assert math.isnan(critical(0.95, 3, 0))
    assert math.isnan(student(0.95, 0))
