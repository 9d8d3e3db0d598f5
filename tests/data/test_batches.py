from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.data import Batches, Split, windows
from labkit.data.shards import ShardWriter
from labkit.spec import Mistake


def split_of(n: int) -> Split:
    """The tokens 0 … n - 1, in three shards, so that a token tells its place."""
    shards = [part.astype("<u4") for part in np.array_split(np.arange(n), 3)]
    return Split("train", shards, n, n, 1)


Case = tuple[int, int, int, int]
cases = st.tuples(st.integers(20, 400), st.integers(1, 16), st.integers(1, 70), st.integers(0, 99))
"""Tokens, context, batch size, seed."""


def test_a_batch_has_rows_of_context_and_one_more() -> None:
    batch = Batches(split_of(100), context=8, batch_size=5, seed=0).train(3)
    assert batch.shape == (5, 9)
    assert batch.dtype == np.int64


@settings(deadline=None, max_examples=60)
@given(case=cases)
def test_an_epoch_sees_every_window_once(case: Case) -> None:
    n, context, batch, seed = case
    batches = Batches(split_of(n), context, batch, seed)
    steps = -(-2 * batches.windows // batch)
    rows = np.concatenate([batches.train(step) for step in range(steps)])
    for epoch in (0, 1):
        seen = rows[epoch * batches.windows : (epoch + 1) * batches.windows]
        assert sorted(seen[:, 0]) == list(range(0, batches.windows * context, context))
    assert (np.diff(rows, axis=1) == 1).all()


@settings(deadline=None, max_examples=60)
@given(step=st.integers(0, 10**6), ranks=st.integers(1, 9), case=cases)
def test_the_ranks_together_see_the_batch_of_one(step: int, ranks: int, case: Case) -> None:
    n, context, batch, seed = case
    batches = Batches(split_of(n), context, batch, seed)
    parts = [batches.train(step, rank, ranks) for rank in range(ranks)]
    assert np.array_equal(np.concatenate(parts), batches.train(step))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_batch_depends_on_nothing_but_the_step() -> None:
    fresh = Batches(split_of(1000), 8, 4, seed=1)
    used = Batches(split_of(1000), 8, 4, seed=1)
    for step in (5, 2, 900):
        used.train(step)
    assert np.array_equal(fresh.train(40), used.train(40))


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    one, other = (Batches(split_of(1000), 8, 124, seed) for seed in (1, 2))
    assert one.windows == 124
    assert not np.array_equal(one.train(0), other.train(0))
    assert not np.array_equal(one.train(0), one.train(1))


def test_epochs_are_counted() -> None:
    batches = Batches(split_of(81), context=8, batch_size=4, seed=0)
    assert batches.windows == 10
    assert batches.epoch(5) == 2.0


@settings(deadline=None, max_examples=60)
@given(n=st.integers(20, 400), length=st.integers(1, 16), rows=st.integers(1, 9))
def test_evaluation_scores_every_target_once(n: int, length: int, rows: int) -> None:
    scored: list[int] = []
    for batch in windows(split_of(n), length, rows=rows):
        assert batch.shape[0] <= rows
        assert batch.shape[1] == length + 1
        real = batch[:, 1:] != -100
        assert (batch[:, 1:][real] == batch[:, :-1][real] + 1).all()
        scored += batch[:, 1:][real].tolist()
    assert scored == list(range(1, n))


def test_a_limit_takes_the_same_windows_from_all_over_the_split() -> None:
    first, second = (np.concatenate(list(windows(split_of(1001), 10, limit=5, rows=2))) for _ in range(2))
    assert np.array_equal(first, second)
    assert first[:, 0].tolist() == [0, 200, 400, 600, 800]


def test_a_limit_beyond_the_split_takes_all_of_it() -> None:
    assert sum(map(len, windows(split_of(101), 10, limit=99))) == 10


@pytest.mark.parametrize("make", [lambda s: Batches(s, 30, 1, 0), lambda s: next(windows(s, 30))])
def test_a_split_shorter_than_a_window_is_refused_with_both_numbers(make: object) -> None:
    with pytest.raises(Mistake, match=r"train split has 30 tokens.* = 31\..*at most 29"):
        make(split_of(30))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "tokens", "remedy"),
    [
        ("train", 30, "Choose a longer text or a smaller data.validation, or write a context of at most 29."),
        ("validation", 30, "Choose a longer text or a larger data.validation, or write a context of at most 29."),
        ("validation", 2, "Choose a longer text or a larger data.validation."),
    ],
)
def test_the_remedy_for_a_short_split_is_one_that_helps(name: str, tokens: int, remedy: str) -> None:
    short = Split(name, [np.arange(tokens).astype("<u4")], tokens, tokens, 1)
    with pytest.raises(Mistake) as raised:
        next(windows(short, 64))
    assert str(raised.value).endswith(remedy)


def test_a_window_may_cross_shards(tmp_path: Path) -> None:
    with ShardWriter(tmp_path, "train", np.dtype("<u2"), limit=7) as writer:
        writer.append(np.arange(5))
        writer.append(np.arange(5, 24))
    facts = {"shards": writer.shards, "tokens": 24, "bytes": 0, "documents": 1}
    split = Split.opened(tmp_path, "train", facts, np.dtype("<u2"))
    assert [shard["tokens"] for shard in writer.shards] == [7, 7, 7, 3]
    assert split.read(5, 22).tolist() == list(range(5, 22))
    assert split.rows(np.array([6, 13]), 9).tolist() == [list(range(6, 15)), list(range(13, 22))]
