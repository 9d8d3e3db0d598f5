"""What windows score."""

import numpy as np
import pytest
import torch

from labkit.data import windows
from labkit.train.execution import Eager, Made, Part
from labkit.train.loop import build
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
    token_bytes = torch.from_numpy(lab.store.token_bytes)
    return Scorer(model, token_bytes, 16, 4), SteadyScorer(model, token_bytes, 16, 4, Rehearsing())


@torch.no_grad()
def test_padding_up_to_the_same_number_of_rows_changes_no_score(lab, scorers) -> None:
    plain, steady = (scorer.score(windows(lab.store.val, 16, 7, rows=4)) for scorer in scorers)
    assert steady.tokens_T.tolist() == plain.tokens_T.tolist() == [7] * 16
    assert steady.bytes == plain.bytes
    torch.testing.assert_close(steady.nats_T, plain.nats_T, rtol=1e-6, atol=0)


@torch.no_grad()
def test_every_score_begins_anew(lab, scorers) -> None:
    for scorer in scorers:
        first, second = (scorer.score(windows(lab.store.val, 16, 7, rows=4)).loss for _ in range(2))
        assert first == second


@torch.no_grad()
def test_only_what_was_to_be_captured_and_was_not_is_noted(scorers) -> None:
    class Failing(Eager):
        def made(self, *parts: Part) -> Made:
            return Made(parts, "eager", "mine.py:3 (x.item()) waits for the device")

    plain, steady = scorers
    failing = SteadyScorer(plain.model, plain.token_bytes, 16, 4, Failing())
    for scorer in (plain, steady, failing):
        scorer.score([np.zeros((1, 17), dtype=np.int64)])
    assert (plain.notes, steady.notes) == ([], [])
    assert failing.notes == ["evaluation: eager, for it cannot be captured: mine.py:3 (x.item()) waits for the device"]
