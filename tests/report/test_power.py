import math

import numpy as np
import pytest
from scipy import integrate, stats

from labkit.report.dunnett import critical, student
from labkit.report.power import MOST, power, resolvable, settling, tied


@pytest.mark.parametrize(("effect", "arms", "dof"), [(0.0, 1, 4), (1.0, 3, 8), (3.0, 4, 16), (6.0, 4, 16), (4.0, 1, 2)])
def test_the_power_is_that_of_the_noncentral_t(effect: float, arms: int, dof: int) -> None:
    bound = critical(0.95, arms, dof)

    def given(s: float) -> float:
        kept = stats.norm.cdf(bound * s - effect) - stats.norm.cdf(-bound * s - effect)
        return (1 - kept) * stats.chi.pdf(s * math.sqrt(dof), dof) * math.sqrt(dof)

    assert power(effect, 1.0, arms, dof) == pytest.approx(integrate.quad(given, 0, 10, points=[1.0])[0], abs=1e-6)


def test_an_effect_has_a_size_and_no_side() -> None:
    assert power(-0.3, 0.1, 3, 8) == power(0.3, 0.1, 3, 8)
    assert power(0.0, 0.1, 1, 8) == pytest.approx(0.05, abs=1e-9)
    assert power(100.0, 0.1, 3, 8) == pytest.approx(1)


def test_what_is_resolvable_is_found_four_times_out_of_five() -> None:
    assert power(resolvable(0.02, 4, 16), 0.02, 4, 16) == pytest.approx(0.8, abs=1e-4)
    assert all(map(math.isnan, (resolvable(math.nan, 4, 16), resolvable(0.1, 4, 0), resolvable(0.1, 0, 4))))


def test_the_seeds_that_settle_a_difference_do_so_and_one_fewer_does_not() -> None:
    few, many = settling(0.004, 0.005, 0.005, 16, arms=4, variants=4)
    assert 2 <= few < many <= MOST
    for seeds, quantile in ((few, 0.9), (many, 0.1)):
        sigma = 0.005 * math.sqrt(16 / stats.chi2.ppf(quantile, 16))
        wide = [critical(0.95, 4, 4 * (n - 1)) * sigma * math.sqrt(2 / n) for n in (seeds - 1, seeds)]
        assert wide[1] < 0.004 <= wide[0]


def test_the_band_holds_the_seeds_that_the_true_noise_asks_for_as_often_as_it_says() -> None:
    random, dof = np.random.default_rng(0), 8
    sigmas = 0.005 * np.sqrt(random.chisquare(dof, 300) / dof)
    (true, _) = settling(0.004, 0.0, 0.005, 10**6, arms=2, variants=2)
    bands = [settling(0.004, 0.0, float(sigma), dof, arms=2, variants=2) for sigma in sigmas]
    assert np.mean([low <= true <= high for low, high in bands]) == pytest.approx(0.8, abs=0.08)


def test_no_difference_settles_as_a_tie_and_one_at_the_margin_never_does() -> None:
    assert max(settling(0.0, 0.005, 0.005, 16, arms=2, variants=2)) < 50
    assert settling(0.0, 0.0, 0.005, 16, arms=2, variants=2) == (MOST + 1, MOST + 1)


def test_the_margin_that_equal_arms_are_shown_to_tie_within_holds_in_four_of_five_experiments() -> None:
    random, n, dof = np.random.default_rng(0), 40_000, 12
    d = random.standard_normal(n)
    s = np.sqrt(random.chisquare(dof, n) / dof)
    margin = tied(1.0, dof)
    assert np.mean(np.abs(d) + student(0.90, dof) * s < margin) == pytest.approx(0.8, abs=0.03)
