import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from labkit.report.statistics import differences, mean, paired, spread

numbers = st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 6))


def test_pairs_are_the_seeds_that_both_have_in_their_order() -> None:
    assert differences({3: 1.5, 0: 2.0, 7: 9.0}, {0: 1.0, 3: 1.0, 5: 0.0}) == [1.0, 0.5]


@given(st.lists(numbers, min_size=2, max_size=12).filter(lambda xs: len(set(xs)) > 1))
def test_the_interval_is_that_of_scipy(values: list[float]) -> None:
    result = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    found = paired(values)
    assert found.low == pytest.approx(result.low, rel=1e-9, abs=1e-9)
    assert found.high == pytest.approx(result.high, rel=1e-9, abs=1e-9)
    assert found.spread == pytest.approx(np.std(values, ddof=1), rel=1e-9)


def test_the_interval_covers_the_true_difference_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    found = [paired(random.normal(0.3, 1.0, size=4).tolist()) for _ in range(4000)]
    assert np.mean([one.low <= 0.3 <= one.high for one in found]) == pytest.approx(0.95, abs=0.015)


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=2, max_size=6))
def test_what_the_seeds_share_moves_neither_difference_nor_interval(rows: list[tuple[float, float, float]]) -> None:
    here, there, shared = ({seed: row[at] for seed, row in enumerate(rows)} for at in range(3))
    moved = paired(differences({s: here[s] + shared[s] for s in here}, {s: there[s] + shared[s] for s in there}))
    still = paired(differences(here, there))
    assert moved.mean == pytest.approx(still.mean, abs=1e-9)
    assert moved.high - moved.low == pytest.approx(still.high - still.low, abs=1e-8)


def test_one_seed_has_a_difference_but_no_interval() -> None:
    found = paired([0.25])
    assert (found.mean, found.n, found.has_interval, found.excludes_zero) == (0.25, 1, False, False)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert math.isnan(found.spread)


def test_no_seed_has_nothing() -> None:
    found = paired([])
    assert (found.n, found.has_interval, found.excludes_zero) == (0, False, False)
    assert math.isnan(found.mean)
    assert math.isnan(mean([]))
    assert math.isnan(spread([1.0]))


def test_an_interval_excludes_zero_on_either_side() -> None:
    assert paired([1.0, 1.1, 0.9]).excludes_zero
    assert paired([-1.0, -1.1, -0.9]).excludes_zero
    assert not paired([1.0, -1.1, 0.9]).excludes_zero
