"""What windows score."""

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labkit.data import windows
from labkit.train.execution import Eager, Made, Part
from labkit.train.loop import build
from labkit.train.reading import LAG
from labkit.train.score import Scorer, SteadyScorer

CPU = torch.device("cpu")


class Rehearsing(Eager):
    """Runs what it is given a few times, as a capture does."""

    def made(self, *parts: Part) -> Made:
        for part in parts * 3:
            part()
        return super().made(*parts)


@pytest.fixture
def scorers(lab) -> tuple[Scorer, SteadyScorer]:
    model = build(lab.spec, 257, CPU).eval()
    return Scorer(model, CPU, 16, 4), SteadyScorer(model, CPU, 16, 4, Rehearsing())


def scored(scorer: Scorer, batches: Iterable[NDArray[np.int64]]) -> NDArray[np.float64]:
    return np.concatenate([losses_BT.copy() for losses_BT, _ in scorer.losses(batches)])


@torch.no_grad()
def test_padding_up_to_the_same_number_of_rows_changes_no_score(lab, scorers) -> None:
    plain, steady = (scored(scorer, windows(lab.store.val, 16, 7, rows=4)) for scorer in scorers)
    assert plain.shape == steady.shape == (7, 16)
    np.testing.assert_allclose(steady, plain, rtol=1e-5)


@torch.no_grad()
def test_the_losses_come_with_their_batches_also_when_they_come_late(lab, scorers, monkeypatch) -> None:
    monkeypatch.setitem(LAG, "cpu", 2)
    batches = list(windows(lab.store.val, 16, 19, rows=4))
    plain, steady = ([(losses.copy(), batch) for losses, batch in scorer.losses(batches)] for scorer in scorers)
    assert [len(losses) for losses, _ in steady] == [4, 4, 4, 4, 3]
    for (here, mine), (there, other) in zip(plain, steady, strict=True):
        assert mine is other
        np.testing.assert_allclose(here, there, rtol=1e-5)


@torch.no_grad()
def test_only_what_was_to_be_captured_and_was_not_is_noted(scorers) -> None:
    class Failing(Eager):
        def made(self, *parts: Part) -> Made:
            return Made(parts, "eager", "mine.py:3 (x.item()) waits for the device")

    plain, steady = scorers
    failing = SteadyScorer(plain.model, CPU, 16, 4, Failing())
    for scorer in (plain, steady, failing):
        scored(scorer, [np.zeros((1, 17), dtype=np.int64)])
    assert (plain.notes, steady.notes) == ([], [])
    assert failing.notes == ["evaluation: eager, for it cannot be captured: mine.py:3 (x.item()) waits for the device"]
