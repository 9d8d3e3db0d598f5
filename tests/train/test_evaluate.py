"""Validation losses against what a hand computes."""

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from labkit.data import Split, Store
from labkit.model import Transformer
from labkit.spec import Mistake
from labkit.train.evaluate import Evaluator, cut, multiples
from labkit.train.execution import Eager
from labkit.train.loop import build
from labkit.train.run import RunSpec
from labkit.train.score import Score


def held(tokens: list[int], token_bytes: list[int]) -> Store:
    """A store that is nothing but a validation split."""
    split = Split(
        "validation", [np.array(tokens, dtype=np.uint16)], len(tokens), sum(token_bytes[t] for t in tokens), 1
    )
    return cast("Store", SimpleNamespace(val=split, token_bytes=np.array(token_bytes, dtype=np.int64)))


class Fixed:
    """Stands for a model: the loss of a token is its id."""

    def losses(self, tokens_BT: torch.Tensor, targets_BT: torch.Tensor) -> torch.Tensor:
        assert (tokens_BT >= 0).all()
        return torch.where(targets_BT >= 0, targets_BT, 0).float()

    def eval(self) -> None: ...

    def train(self) -> None: ...


def evaluator(lab, tokens: list[int], token_bytes: list[int], rows: int = 4, **changes: Any) -> Evaluator:
    spec = lab.spec.patched({"model.context": 4, **{f"evaluation.{name}": value for name, value in changes.items()}})
    return judging(cast("Transformer", Fixed()), spec, held(tokens, token_bytes), rows)


def judging(model: Transformer, spec: RunSpec, store: Store, rows: int) -> Evaluator:
    return Evaluator(model, spec, store, rows=rows, device=torch.device("cpu"), execution=Eager())


def test_bits_per_byte_are_the_nats_over_the_bytes_of_exactly_the_scored_tokens(lab) -> None:
    # eleven tokens: the first is never a target; of three windows of four the last is filled with two that do not count
    tokens = [9, 1, 2, 3, 1, 0, 2, 3, 1, 2, 3]
    score = evaluator(lab, tokens, [0, 1, 2, 4, *[8] * 6]).score()
    assert score.loss == (1 + 2 + 3 + 1 + 0 + 2 + 3 + 1 + 2 + 3) / 10
    assert score.bits_per_byte == pytest.approx(18 / (3 * 1 + 3 * 2 + 3 * 4) / math.log(2))


def test_losses_are_told_apart_by_position_in_the_context(lab) -> None:
    score = evaluator(lab, [0, 1, 2, 3, 4, 1, 2, 3, 6], [1] * 9).score()
    assert score.by_position() == {"edges": [1, 2, 4], "loss": [1.0, (2 + 3 + 4 + 2 + 3 + 6) / 6]}


@pytest.mark.parametrize("length", [1, 2, 7, 16, 100, 256])
def test_the_bins_of_positions_double_and_cover_the_context(length: int) -> None:
    score = Score(length, torch.device("cpu"))
    ones = torch.ones(3, length, dtype=torch.int64)
    score.add(torch.arange(1.0, length + 1).expand(3, length), ones, ones)
    binned = score.by_position()
    assert (binned["edges"][0], binned["edges"][-1]) == (1, length)
    assert len(binned["loss"]) == max(1, len(binned["edges"]) - 1)
    assert binned["edges"] == sorted({2**k for k in range(9) if 2**k < length} | {length})
    widths = [b - a for a, b in zip(binned["edges"], binned["edges"][1:], strict=False)] or [1]
    widths[-1] += length > 1
    total = sum(width * mean for width, mean in zip(widths, binned["loss"], strict=True))
    assert total == pytest.approx(length * (length + 1) / 2)


def test_the_size_of_the_batches_does_not_matter(lab) -> None:
    model = build(lab.spec, 257, torch.device("cpu"))
    scores = [judging(model, lab.spec, lab.store, rows).on_the_way() for rows in (1, 4)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)


def test_an_untrained_model_knows_nothing(lab) -> None:
    model = build(lab.spec, 257, torch.device("cpu"))
    values, by_position = judging(model, lab.spec, lab.store, 4).at_the_end()
    expected = {"val/loss", "val/bpb", "val/loss_x1", "val/loss_x2", "val/loss_x4"}
    assert set(values) == expected
    assert {round(values[name]) for name in ("val/loss", "val/loss_x2", "val/loss_x4")} == {round(math.log(257))}
    assert max(by_position["loss"]) - min(by_position["loss"]) < 0.1


def test_evaluation_leaves_the_model_in_training(lab) -> None:
    model = build(lab.spec.patched({"model.dropout": 0.5}), 257, torch.device("cpu"))
    judge = judging(model, lab.spec, lab.store, 4)
    assert judge.on_the_way() == judge.on_the_way()
    assert model.training


def test_only_lengths_that_the_model_and_the_split_allow_are_read(lab) -> None:
    assert multiples(lab.spec, lab.store) == [2, 4]
    assert multiples(lab.spec.patched({"model.position": "learned"}), lab.store) == []
    assert multiples(lab.spec, held([1] * 40, [1, 1])) == [2]


def test_every_length_scores_the_same_targets() -> None:
    spans = [np.arange(start, start + 65)[None] for start in (0, 500)]
    for length in (16, 32, 64):
        windows = np.concatenate(list(cut(spans, length)))
        assert windows.shape == (128 // length, length + 1)
        assert sorted(windows[:, 1:].flatten()) == [*range(1, 65), *range(501, 565)]


def test_a_validation_split_shorter_than_a_window_is_refused(lab) -> None:
    with pytest.raises(Mistake, match="validation split has 4 tokens"):
        evaluator(lab, [1, 2, 3, 1], [1] * 4)
