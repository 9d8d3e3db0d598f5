import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.data.permutation import permuted, permuted_each

keys = st.tuples(st.integers(-(2**70), 2**70), st.integers(0, 10**6))


@settings(deadline=None, max_examples=60)
@given(n=st.integers(1, 3000), key=keys)
def test_every_index_comes_up_once(n: int, key: tuple[int, int]) -> None:
    assert sorted(permuted(np.arange(n), n, *key)) == list(range(n))


@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 10**13), at=st.integers(0, 10**13), key=keys)
def test_an_index_is_sent_alone_where_it_is_sent_among_others(n: int, at: int, key: tuple[int, int]) -> None:
    index = np.array([at % n, 0, n - 1])
    among = permuted(index, n, *key)
    assert ((among >= 0) & (among < n)).all()
    assert [permuted(index[i : i + 1], n, *key)[0] for i in range(3)] == among.tolist()


def test_indices_of_several_epochs_are_sent_as_each_epoch_sends_them() -> None:
    index, epochs = np.array([5, 9, 0, 1, 8, 3]), np.array([0, 0, 1, 1, 1, 3])
    alone = [permuted(index[i : i + 1], 10, 7, 40 + int(epochs[i]))[0] for i in range(6)]
    assert permuted_each(index, 10, 7, 40, epochs).tolist() == alone


def test_each_place_is_as_likely_as_any_other() -> None:
    n, draws = 11, 2200
    counts = np.zeros((n, n))
    for key in range(draws):
        counts[np.arange(n), permuted(np.arange(n), n, key)] += 1
    chi2 = ((counts - draws / n) ** 2 / (draws / n)).sum()  # (n - 1)² = 100 degrees of freedom, so 100 ± 14
    assert 50 < chi2 < 170


def test_neighbours_do_not_stay_neighbours() -> None:
    n = 100_000
    out = permuted(np.arange(n), n, 7)
    assert (np.abs(np.diff(out)) == 1).sum() < 20  # 2 expected
    assert abs(np.corrcoef(np.arange(n), out)[0, 1]) < 0.02


def test_the_order_never_changes_since_resumed_runs_rely_on_it() -> None:
    assert permuted(np.arange(10), 10, 0, 0).tolist() == [4, 2, 5, 6, 1, 3, 7, 9, 0, 8]
