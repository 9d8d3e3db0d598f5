"""What windows of the validation split score, summed up on the device.

B batch, T time.
"""

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labkit.model import IGNORED, Transformer
from labkit.train.execution import Eager, Made
from labkit.train.feed import feed_on


class Score:
    """Sums over scored tokens, kept on the device; padding is not scored."""

    def __init__(self, length: int, device: torch.device) -> None:
        self.nats_T = torch.zeros(length, dtype=torch.float64, device=device)
        self.tokens_T = torch.zeros(length, dtype=torch.int64, device=device)
        self.bytes = torch.zeros((), dtype=torch.int64, device=device)

    def clear(self) -> None:
        """Begin anew."""
        for total in (self.nats_T, self.tokens_T, self.bytes):
            total.zero_()

    def add(self, losses_BT: Tensor, scored_BT: Tensor, bytes_BT: Tensor) -> None:
        self.nats_T += losses_BT.double().sum(0)
        self.tokens_T += scored_BT.sum(0)
        self.bytes += (bytes_BT * scored_BT).sum()

    @property
    def loss(self) -> float:
        """The mean over the scored tokens, in nats."""
        return (self.nats_T.sum() / self.tokens_T.sum()).item()

    @property
    def bits_per_byte(self) -> float:
        """The nats of the scored tokens over the UTF-8 bytes of exactly those tokens, in bits."""
        return (self.nats_T.sum() / self.bytes).item() / math.log(2)

    def by_position(self) -> dict[str, list[Any]]:
        """The mean loss where n tokens of context are given, n in [1, 2), [2, 4), …, the last bin up to and with T."""
        length = len(self.nats_T)
        edges = [2**k for k in range(length.bit_length()) if 2**k < length] + [length]
        ends = [edge - 1 for edge in edges[1:-1]] + [length]
        nats, tokens = self.nats_T.tolist(), self.tokens_T.tolist()
        bins = list(zip([0, *ends], ends, strict=False))
        means = [sum(nats[a:b]) / max(1, sum(tokens[a:b])) for a, b in bins]
        return {"edges": edges, "loss": means}


class Scorer:
    """Scores windows of one length, at most `rows` at once."""

    def __init__(self, model: Transformer, token_bytes: Tensor, length: int, rows: int) -> None:
        self.model, self.token_bytes, self.rows = model, token_bytes, rows
        self.sum = Score(length, token_bytes.device)

    @property
    def notes(self) -> list[str]:
        """What a reader of the record should know of how it was executed."""
        return []

    def score(self, batches: Iterable[NDArray[np.int64]]) -> Score:
        """Of batches (at most rows, length + 1); it holds until the next call."""
        self.sum.clear()
        for batch in batches:
            self.take(torch.from_numpy(batch))
        return self.sum

    def take(self, tokens_BT: Tensor) -> None:
        """Add a batch that lies on the host."""
        self.add(tokens_BT.to(self.token_bytes.device))

    def add(self, tokens_BT: Tensor) -> None:
        given_BT, targets_BT = tokens_BT[:, :-1], tokens_BT[:, 1:]
        losses_BT = self.model.losses(given_BT.clamp(min=0), targets_BT)
        self.sum.add(losses_BT, targets_BT != IGNORED, self.token_bytes[targets_BT.clamp(min=0)])


class SteadyScorer(Scorer):
    """Always as many at once, the last batch filled up with padding, so that the pass can be captured."""

    def __init__(self, model: Transformer, token_bytes: Tensor, length: int, rows: int, execution: Eager) -> None:
        super().__init__(model, token_bytes, length, rows)
        self.feed, self.execution = feed_on(token_bytes.device, rows, length + 1), execution

    @cached_property
    def made(self) -> Made:
        """What executes it; the sum is of no worth after it was made."""
        return self.execution.made(lambda: self.add(self.feed.tokens_RT))

    @property
    def notes(self) -> list[str]:
        return self.made.notes("evaluation")

    def score(self, batches: Iterable[NDArray[np.int64]]) -> Score:
        (self.part,) = self.made.parts
        return super().score(batches)

    def take(self, tokens_BT: Tensor) -> None:
        self.feed.put(tokens_BT)
        self.part()


def scorer_on(
    model: Transformer, token_bytes: Tensor, length: int, *, rows: int, often: int, execution: Eager
) -> Scorer:
    """What scores windows of a length where the model is, at most `rows` at once, and `often` so many in all."""
    if token_bytes.device.type == "cuda":
        return SteadyScorer(model, token_bytes, length, min(rows, often), execution)
    return Scorer(model, token_bytes, length, rows)
