import math

import numpy as np
import pytest

from labkit.report.model import against, family, noise, removed, residual, spreads

NAN = math.nan


def table(arms: int = 4, seeds: int = 5, *, scale: float = 1.0, row: int = 1, entropy: int = 0) -> np.ndarray:
    """Arms × seeds: what seeds share, large, and noise, one row's by its own scale."""
    random = np.random.default_rng(entropy)
    noise_AS = random.normal(size=(arms, seeds))
    noise_AS[row] *= scale
    return noise_AS + 10 * random.normal(size=seeds)


def test_the_noise_is_pooled_over_the_arms() -> None:
    y_AS = table()
    left = y_AS - y_AS.mean(axis=1, keepdims=True) - y_AS.mean(axis=0) + y_AS.mean()
    sigma, dof = residual(y_AS)
    assert dof == 3 * 4
    assert sigma == pytest.approx(math.sqrt((left**2).sum() / dof))


def test_with_one_variant_it_is_the_paired_t_interval() -> None:
    y_AS = table(arms=2)
    gap = against(y_AS, 1, noise(y_AS), family(y_AS), 0.95)
    pairs = y_AS[1] - y_AS[0]
    assert (gap.error, gap.dof) == (pytest.approx(np.std(pairs, ddof=1) / math.sqrt(5)), 4)


def test_survivors_of_unequal_number_leave_as_many_degrees_of_freedom_as_least_squares_says() -> None:
    y_AS = table()
    y_AS[2, 1] = y_AS[3, 4] = NAN
    assert residual(y_AS)[1] == 18 - (4 + 5 - 1)
    gaps = [against(y_AS, row, noise(y_AS), family(y_AS), 0.95) for row in (1, 2, 3)]
    assert [gap.n for gap in gaps] == [5, 4, 4]
    assert family(y_AS).correlation == pytest.approx(0.5 * 3 / 4)


def test_a_seed_that_one_arm_alone_has_says_nothing_of_the_noise() -> None:
    y_AS = table(seeds=4)
    y_AS[1:, 3] = NAN
    sigma, dof = residual(y_AS)
    assert (sigma, dof) == (pytest.approx(residual(y_AS[:, :3])[0]), 6)


def test_what_the_seeds_share_moves_nothing() -> None:
    y_AS = table()
    moved_AS = y_AS + np.arange(5) * 100
    for row in (1, 2, 3):
        here, there = (against(y, row, noise(y), family(y), 0.95) for y in (y_AS, moved_AS))
        assert (here.low, here.high) == pytest.approx((there.low, there.high))


def test_spreads_are_each_arms_own_however_much_the_seeds_share() -> None:
    y_AS = table(arms=4, seeds=4000, scale=5.0, row=2)
    assert spreads(y_AS) == pytest.approx([1, 1, 5, 1], rel=0.1)


def test_an_arm_out_of_all_proportion_keeps_its_own_variance_and_leaves_the_others_theirs() -> None:
    y_AS = table(seeds=6, scale=30.0, row=2)
    found = noise(y_AS)
    wild, tame = (against(y_AS, row, found, family(y_AS), 0.95) for row in (2, 1))
    assert found.unstable == {2}
    assert found.sigma == pytest.approx(residual(y_AS[[0, 1, 3]])[0])
    assert (wild.unstable, wild.dof) == (True, 5)
    assert wild.error == pytest.approx(np.std(y_AS[2] - y_AS[0], ddof=1) / math.sqrt(6))
    assert (tame.unstable, tame.dof) == (False, 10)


def test_arms_alike_are_seldom_called_unstable() -> None:
    assert sum(bool(noise(table(seeds=3, entropy=entropy)).unstable) for entropy in range(1000)) <= 20


def test_a_noisy_baseline_is_in_every_difference() -> None:
    y_AS = table(arms=5, seeds=400, scale=2.0, row=0)
    found = noise(y_AS)
    assert found.pair == pytest.approx(math.sqrt(4 + 1), rel=0.05)
    assert found.pair > 1.1 * math.sqrt(2) * found.sigma


def test_pairing_removes_what_the_seeds_share() -> None:
    y_AS = table(arms=4, seeds=500)
    assert removed(y_AS) == pytest.approx(1 - 1 / 101, abs=0.01)
    assert abs(removed(np.random.default_rng(0).normal(size=(4, 500)))) < 0.05


@pytest.mark.parametrize("y_AS", [np.full((3, 0), NAN), np.full((3, 2), NAN), np.ones((3, 1)), np.array([[1.0, NAN]])])
def test_too_little_leaves_no_noise_and_no_interval(y_AS: np.ndarray) -> None:
    found = noise(y_AS)
    assert found.dof == 0
    assert math.isnan(found.sigma)
    assert math.isnan(removed(y_AS))
    if len(y_AS) > 1:
        assert math.isnan(against(y_AS, 1, found, family(y_AS), 0.95).low)


def test_runs_that_do_not_differ_leave_no_noise_and_an_interval_of_nothing() -> None:
    y_AS = np.tile(np.arange(4.0), (3, 1))
    gap = against(y_AS, 1, noise(y_AS), family(y_AS), 0.95)
    assert (gap.low, gap.high) == pytest.approx((0, 0), abs=1e-12)
