"""Validation losses against what a hand computes."""

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from labkit.data import Split, Store
from labkit.data.store import Whole
from labkit.model import Transformer
from labkit.spec import Mistake
from labkit.train.evaluate import Evaluator, cut, multiples
from labkit.train.execution import Eager
from labkit.train.loop import build
from labkit.train.run import RunSpec
from labkit.train.score import Positions

END = 0


def held(tokens: list[int], token_bytes: list[int]) -> Store:
    """A store that is nothing but a validation split."""
    split = Split(
        "validation", [np.array(tokens, dtype=np.uint16)], len(tokens), sum(token_bytes[t] for t in tokens), 1
    )
    return cast(
        "Store", SimpleNamespace(val=split, also={}, end=END, token_bytes=np.array(token_bytes, dtype=np.int64))
    )


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
    judge = evaluator(lab, tokens, [0, 1, 2, 4, *[8] * 6])
    score = judge.score(judge.store.val)
    assert score.loss == (1 + 2 + 3 + 1 + 0 + 2 + 3 + 1 + 2 + 3) / 10
    assert score.bits_per_byte == pytest.approx(18 / (3 * 1 + 3 * 2 + 3 * 4) / math.log(2))


def test_losses_are_told_apart_by_position_in_windows_of_one_document(lab) -> None:
    judge = evaluator(lab, [9, 1, 2, 3, 4, 1, 2, 3, END, 7, 8, 9, 1, END], [1] * 10)
    by_position = judge.score(judge.store.val).by_position()
    assert by_position == {"edges": [1, 2, 4], "loss": [1.0, (2 + 3 + 4 + 2 + 3 + 0) / 6], "within": True}


def test_where_no_document_is_as_long_as_the_context_the_positions_of_all_windows_are_told(lab) -> None:
    judge = evaluator(lab, [9, 1, END, 3, END, 1, 2, END, END], [1] * 10)
    by_position = judge.score(judge.store.val).by_position()
    assert by_position == {"edges": [1, 2, 4], "loss": [1.0, 5 / 6], "within": False}


def test_every_scored_target_belongs_to_its_document(lab) -> None:
    tokens = [9, 1, 2, END, 3, END, 1, 2, 3, 4, 5, 6, END, 8, END]
    judge = evaluator(lab, tokens, [0, 1, 2, 4, *[8] * 6], rows=2)
    score, documents = judge.whole(judge.store.val)
    assert documents.nats.tolist() == [1 + 2, 3, 1 + 2 + 3 + 4 + 5 + 6, 8]
    assert documents.tokens.tolist() == [3, 2, 7, 2]
    assert documents.bytes.tolist() == [1 + 2, 4, 1 + 2 + 4 + 8 * 3, 8]
    assert documents.nats.sum() / documents.tokens.sum() == score.loss
    assert documents.bytes.sum() == score.bytes


def test_the_documents_of_a_split_add_up_to_what_is_reported(lab) -> None:
    model = build(lab.spec, 257, torch.device("cpu"))
    final = judging(model, lab.spec, lab.store, 4).at_the_end()
    documents = final.documents["val"]
    assert len(documents) == lab.store.val.n_documents
    assert documents.tokens.sum() == lab.store.val.n_tokens - 1
    assert documents.bytes[1:].sum() + documents.bytes[0] + 1 == lab.store.val.n_bytes  # one byte is no target
    assert documents.nats.sum() / documents.tokens.sum() == pytest.approx(final.values["val/loss"], rel=1e-14)
    bits = documents.nats.sum() / documents.bytes.sum() / math.log(2)
    assert bits == pytest.approx(final.values["val/bpb"], rel=1e-14)


@pytest.mark.parametrize("length", [1, 2, 7, 16, 100, 256])
def test_the_bins_of_positions_double_and_cover_the_context(length: int) -> None:
    positions = Positions(length)
    positions.add(np.tile(np.arange(1.0, length + 1), (3, 1)), np.ones((3, length), np.bool_))
    binned = positions.bins()
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
    final = judging(model, lab.spec, lab.store, 4).at_the_end()
    expected = {"val/loss", "val/bpb", "val/loss_x1", "val/loss_x2", "val/loss_x4"}
    assert set(final.values) == expected
    assert {round(final.values[name]) for name in expected - {"val/bpb"}} == {round(math.log(257))}
    assert max(final.by_position["loss"]) - min(final.by_position["loss"]) < 0.1
    assert (final.beyond["edges"], set(final.beyond["loss"])) == ([1, 2, 4, 8, 16, 32, 64], {"1", "2", "4"})
    assert {len(bins) for bins in final.beyond["loss"].values()} == {6}


def test_further_sets_are_scored_whole_under_their_names(lab) -> None:
    model, store = build(lab.spec, 257, torch.device("cpu")), Store(lab.store.path)
    store.also["again"] = cast("Whole", SimpleNamespace(split=store.val))
    final = judging(model, lab.spec, store, 4).at_the_end()
    for kind in ("loss", "bpb"):
        assert final.values[f"val/again/{kind}"] == final.values[f"val/{kind}"]
    assert final.documents["val/again"].nats.tolist() == final.documents["val"].nats.tolist()


def test_evaluation_leaves_the_model_in_training(lab) -> None:
    model = build(lab.spec.patched({"model.dropout": 0.5}), 257, torch.device("cpu"))
    judge = judging(model, lab.spec, lab.store, 4)
    assert judge.on_the_way() == judge.on_the_way()
    assert model.training


def test_only_lengths_that_the_model_and_some_document_allow_are_read(lab) -> None:
    assert multiples(lab.spec, lab.store) == [2, 4]
    assert multiples(lab.spec.patched({"model.position": "learned"}), lab.store) == []
    assert multiples(lab.spec, held([*[1] * 32, END, *[1] * 90], [1, 1])) == [2]
    assert multiples(lab.spec, held([*[1] * 31, END, *[1] * 31, END], [1, 1])) == []


def test_every_length_scores_the_same_targets_within_a_document(lab) -> None:
    tokens = [*[9] * 8, END, *range(1, 18), *[9] * 4, END, *[9] * 16, END]
    judge = evaluator(lab, tokens, [1] * 20, windows=8)
    places = {length: judge.read_in(np.array([tokens[9:26]]), length) for length in (4, 8, 16)}
    assert {tuple(found.nats_T.tolist()) for found in places.values()} == {tuple(range(2, 18))}
    values, beyond = judge.beyond()
    assert set(values) == {"val/loss_x1", "val/loss_x2", "val/loss_x4"}
    assert len(set(values.values())) == 1
    assert values["val/loss_x4"] == np.mean([*range(2, 18), *[9] * 15, END])
    assert beyond["loss"]["1"][0] == (2 + 9) / 2


def test_spans_are_cut_into_windows_that_tile_them() -> None:
    spans_NT = np.stack([np.arange(start, start + 65) for start in (0, 500)])
    for length in (16, 32, 64):
        windows = np.concatenate(list(cut(spans_NT, length)))
        assert windows.shape == (128 // length, length + 1)
        assert sorted(windows[:, 1:].flatten()) == [*range(1, 65), *range(501, 565)]


def test_a_validation_split_shorter_than_a_window_is_refused(lab) -> None:
    with pytest.raises(Mistake, match="validation split has 4 tokens"):
        evaluator(lab, [1, 2, 3, 1], [1] * 4)
