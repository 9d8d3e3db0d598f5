import math

from labkit.report.statistics import UNCOMPARED, Difference, differences, mean, spread


def test_pairs_are_the_seeds_that_both_have_in_their_order() -> None:
    assert differences({3: 1.5, 0: 2.0, 7: 9.0}, {0: 1.0, 3: 1.0, 5: 0.0}) == [1.0, 0.5]


def test_one_seed_has_a_difference_but_no_interval() -> None:
    found = Difference(mean=0.25, n=1)
    assert (found.has_interval, found.excludes_zero) == (False, False)


def test_no_seed_has_nothing() -> None:
    assert (UNCOMPARED.n, UNCOMPARED.has_interval, UNCOMPARED.excludes_zero) == (0, False, False)
    assert math.isnan(UNCOMPARED.mean)
    assert math.isnan(mean([]))
    assert math.isnan(spread([1.0]))


def test_an_interval_excludes_zero_on_either_side() -> None:
    assert Difference(low=0.9, high=1.1).excludes_zero
    assert Difference(low=-1.1, high=-0.9).excludes_zero
    assert not Difference(low=-1.1, high=0.9).excludes_zero
