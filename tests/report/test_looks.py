import numpy as np
import pytest

from labkit.report.dunnett import critical
from labkit.report.looks import LEVEL, levels


def test_one_look_keeps_the_whole_level() -> None:
    assert levels((5,), 4, 5) == (LEVEL,)
    assert levels((), 4, 5) == ()


@pytest.mark.parametrize(("variants", "arms"), [(1, 2), (4, 6), (10, 11)])
def test_all_looks_together_keep_it(variants: int, arms: int) -> None:
    """Against plain experiments, run by run, in place of the sums that the bounds are simulated from."""
    looks, random = (4, 6, 10), np.random.default_rng(9)
    y_XAS = random.standard_normal((10_000, arms, 10))
    outside = np.zeros(10_000, dtype=bool)
    for seeds, level in zip(looks, levels(looks, variants, arms), strict=True):
        y = y_XAS[:, :, :seeds]
        left = y - y.mean(axis=2, keepdims=True)
        left -= left.mean(axis=1, keepdims=True)
        dof = (seeds - 1) * (arms - 1)
        error = np.sqrt((left**2).sum(axis=(1, 2)) / dof * 2 / seeds)
        t = np.abs(y.mean(axis=2)[:, 1 : variants + 1] - y.mean(axis=2)[:, :1]).max(axis=1) / error
        outside |= t > critical(level, variants, dof)
    assert outside.mean() == pytest.approx(0.05, abs=0.006)


def test_an_early_look_spends_little_and_each_costs_the_last_one_something() -> None:
    first, second, last = levels((4, 6, 10), 4, 5)
    assert 1 - first == pytest.approx(0.05 * (4 / 10) ** 2, rel=0.15)
    assert first > second > last > LEVEL


def test_the_bounds_are_the_same_every_time() -> None:
    once = levels((4, 6), 3, 4)
    levels.cache_clear()
    assert levels((4, 6), 3, 4) == once
