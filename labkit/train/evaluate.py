"""Losses on the validation split: in nats a token and bits a byte, by document, position and length of the context.

B batch, T time.
"""

import math
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from labkit.data import Split, Store, bounds, spans, windows
from labkit.data.batches import require_window
from labkit.model import Transformer
from labkit.tracking.documents import DocumentScores
from labkit.train.documents import ByDocument
from labkit.train.execution import Eager
from labkit.train.run import RunSpec
from labkit.train.score import Losses, Positions, Score, Scorer, Tokens, scorer_on

PRIMARY = "val"
"""The validation split of the data that a run is trained on, among the sets that it is scored on."""


def longest_document(store: Store) -> int:
    """The most targets that the validation split has in one document."""
    return int((bounds(store.val, store.end) @ [-1, 1]).max(initial=1)) - 1


def multiples(spec: RunSpec, store: Store) -> list[int]:
    """Those multiples of the training length that the model can read and that tile a span within some document."""
    context, reach = spec.model.context, math.inf if spec.model.reach is None else spec.model.reach
    kept: list[int] = []
    room = longest_document(store) if spec.evaluation.beyond else 0
    for multiple in sorted(set(spec.evaluation.beyond)):
        if multiple * context <= reach and math.lcm(*kept, multiple) * context <= room:
            kept.append(multiple)
    return kept


@dataclass(frozen=True)
class Final:
    """What a run is judged by."""

    values: dict[str, float]
    by_position: dict[str, Any]
    """Loss in the bins between `edges`, by the tokens of context given; whether all of it is of one document."""
    beyond: dict[str, Any]
    """The same by the place in a span, for each multiple of the training length that the span was read in."""
    documents: dict[str, DocumentScores]
    """By the validation set's name."""


class Summing(Protocol):
    """What takes the losses of one batch of windows after another."""

    def add(self, losses_BT: Losses, tokens_BT: Tokens, /) -> None: ...


class Evaluator:
    """Measures one model as its run spec says, on at most `rows` · context tokens at once.

    Raises Mistake for a validation split that is shorter than a window.
    """

    def __init__(
        self,
        model: Transformer,
        spec: RunSpec,
        store: Store,
        *,
        rows: int,
        device: torch.device,
        execution: Eager,
    ) -> None:
        self.model, self.spec, self.store, self.device = model, spec, store, device
        for split in (store.val, *(whole.split for whole in store.also.values())):
            require_window(split, spec.model.context)
        self.scorer = scorer_on(
            model,
            device,
            spec.model.context,
            rows=rows,
            often=spec.evaluation.windows,
            execution=execution,
        )

    def on_the_way(self) -> dict[str, float]:
        """On the fixed windows."""
        score = self.score(self.store.val, self.spec.evaluation.windows)
        return figures(PRIMARY, score)

    def at_the_end(self) -> Final:
        """On the whole split, with the loss by document and position; beyond the training length; on further sets."""
        score, documents = self.whole(self.store.val)
        lengths, beyond = self.beyond()
        values, scores = figures(PRIMARY, score) | lengths, {PRIMARY: documents}
        for name, whole in self.store.also.items():
            other, scores[f"{PRIMARY}/{name}"] = self.whole(whole.split)
            values |= figures(f"{PRIMARY}/{name}", other)
        return Final(values, score.by_position(), beyond, scores)

    def whole(self, split: Split) -> tuple[Score, DocumentScores]:
        """All of a split, each target scored once."""
        documents = ByDocument(len(bounds(split, self.store.end)), self.store.token_bytes, self.store.end)
        return self.score(split, None, documents), documents.scores

    def beyond(self) -> tuple[dict[str, float], dict[str, Any]]:
        """The loss of the same targets, about as many as on the way, in contexts of 1, 2, 4, … training lengths.

        All of them lie in documents that are long enough for the longest; also by their place in it.
        """
        asked, context = multiples(self.spec, self.store), self.spec.model.context
        if not asked:
            return {}, {}
        longest = math.lcm(*asked)
        limit = max(1, self.spec.evaluation.windows // longest)
        begun_N = spans(self.store.val, self.store.end, longest * context, limit)
        spans_NT = self.store.val.rows(begun_N, longest * context + 1)
        found = {multiple: self.read_in(spans_NT, multiple * context) for multiple in (1, *asked)}
        losses = {f"val/loss_x{multiple}": places.loss for multiple, places in found.items()}
        bins = {str(multiple): places.bins() for multiple, places in found.items()}
        return losses, {"edges": bins["1"]["edges"], "loss": {name: places["loss"] for name, places in bins.items()}}

    def read_in(self, spans_NT: Tokens, length: int) -> Positions:
        """What spans score in contexts of a length, by the place in the span."""
        places = Positions(spans_NT.shape[1] - 1)
        scorer = Scorer(self.model, self.device, length, (spans_NT.shape[1] - 1) // length)
        with self.judging():
            for losses_BT, _ in scorer.losses(cut(spans_NT, length)):
                losses_1T = losses_BT.reshape(1, -1)
                places.add(losses_1T, np.ones(losses_1T.shape, np.bool_))
        return places

    def score(self, split: Split, limit: int | None = None, *others: Summing) -> Score:
        """Over windows of the training length that tile a split, each target scored once."""
        length = self.spec.model.context
        score = Score(length, self.store.token_bytes, self.store.end)
        with self.judging():
            for losses_BT, tokens_BT in self.scorer.losses(windows(split, length, limit, self.scorer.rows)):
                for total in (score, *others):
                    total.add(losses_BT, tokens_BT)
        return score

    @contextmanager
    def judging(self) -> Generator[None]:
        """Inside, the model is not in training."""
        self.model.eval()
        with torch.no_grad():
            yield
        self.model.train()


def figures(name: str, score: Score) -> dict[str, float]:
    """What is reported of a validation set."""
    return {f"{name}/loss": score.loss, f"{name}/bpb": score.bits_per_byte}


def cut(spans_NT: Tokens, length: int) -> Iterable[NDArray[np.int64]]:
    """The windows of `length` targets that tile each span of n · length + 1 tokens: the same targets for any length."""
    for span_T in spans_NT:
        starts = range(0, len(span_T) - 1, length)
        yield np.stack([span_T[start : start + length + 1] for start in starts])
