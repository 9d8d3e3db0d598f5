"""What windows of a validation split score: losses on the device, summed up on the host in float64, in a fixed order.

B batch, R rows of a batch that is always full, T time.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labkit.data.batches import PADDING
from labkit.model import Transformer
from labkit.train.execution import Eager, Made
from labkit.train.feed import feed_on
from labkit.train.moments import Moment, moment_on
from labkit.train.reading import LAG

Losses = NDArray[np.float64]
Tokens = NDArray[np.int64]


class Positions:
    """Sums over windows, apart by the place in the window."""

    def __init__(self, length: int) -> None:
        self.nats_T = np.zeros(length)
        self.tokens_T = np.zeros(length, np.int64)

    def add(self, losses_BT: Losses, scored_BT: NDArray[np.bool_]) -> None:
        self.nats_T += losses_BT.sum(0)
        self.tokens_T += scored_BT.sum(0)

    @property
    def loss(self) -> float:
        """The mean over the scored tokens, in nats."""
        return float(self.nats_T.sum() / self.tokens_T.sum())

    def bins(self) -> dict[str, list[Any]]:
        """The mean loss where n tokens of context are given, n in [1, 2), [2, 4), …, the last bin up to and with T."""
        length = len(self.nats_T)
        edges = [2**k for k in range(length.bit_length()) if 2**k < length] + [length]
        ends = [edge - 1 for edge in edges[1:-1]] + [length]
        nats, tokens = self.nats_T.tolist(), self.tokens_T.tolist()
        bins = list(zip([0, *ends], ends, strict=False))
        means = [sum(nats[a:b]) / max(1, sum(tokens[a:b])) for a, b in bins]
        return {"edges": edges, "loss": means}


class Score:
    """Sums over scored tokens; padding is not scored."""

    def __init__(self, length: int, token_bytes: Tokens, end: int) -> None:
        """`token_bytes` (vocabulary,) says how many UTF-8 bytes each token stands for; `end` ends a document."""
        self.token_bytes, self.end = token_bytes, end
        self.positions, self.inside = Positions(length), Positions(length)
        self.bytes = 0

    def add(self, losses_BT: Losses, tokens_BT: Tokens) -> None:
        """Windows of length + 1 tokens with the loss of each but the first."""
        targets_BT = tokens_BT[:, 1:]
        scored_BT = targets_BT != PADDING
        self.positions.add(losses_BT, scored_BT)
        inside_B = ~(tokens_BT[:, :-1] == self.end).any(1)
        self.inside.add(losses_BT[inside_B], scored_BT[inside_B])
        self.bytes += int(self.token_bytes[targets_BT[scored_BT]].sum())

    @property
    def loss(self) -> float:
        """The mean over the scored tokens, in nats."""
        return self.positions.loss

    @property
    def bits_per_byte(self) -> float:
        """The nats of the scored tokens over the UTF-8 bytes of exactly those tokens, in bits."""
        return float(self.positions.nats_T.sum()) / self.bytes / math.log(2)

    def by_position(self) -> dict[str, Any]:
        """The loss by the tokens of context given, of windows that lie within a document; where none does, of all."""
        within = bool(self.inside.tokens_T.all())
        return (self.inside if within else self.positions).bins() | {"within": within}


class Scorer:
    """Scores windows of one length, at most `rows` at once."""

    def __init__(self, model: Transformer, device: torch.device, length: int, rows: int) -> None:
        self.model, self.device, self.length, self.rows = model, device, length, rows

    @property
    def notes(self) -> list[str]:
        """What a reader of the record should know of how it was executed."""
        return []

    def losses(self, batches: Iterable[Tokens]) -> Iterator[tuple[Losses, Tokens]]:
        """The losses_BT of batches (at most rows, length + 1), each with its batch, in order; 0 for padding."""
        for batch in batches:
            yield self.of(torch.from_numpy(batch).to(self.device)).double().cpu().numpy(), batch

    def of(self, tokens_BT: Tensor) -> Tensor:
        """The losses of a batch on the device."""
        return self.model.losses(tokens_BT[:, :-1].clamp(min=0), tokens_BT[:, 1:])


class SteadyScorer(Scorer):
    """Always as many at once, the last batch filled up with padding, so that the pass can be captured."""

    def __init__(self, model: Transformer, device: torch.device, length: int, rows: int, execution: Eager) -> None:
        super().__init__(model, device, length, rows)
        self.feed, self.execution = feed_on(device, rows, length + 1), execution
        self.losses_RT = torch.zeros(rows, length, dtype=torch.float64, device=device)
        self.on_their_way: deque[tuple[Tensor, Moment, Tokens]] = deque()
        self.free: list[Tensor] = []

    @cached_property
    def made(self) -> Made:
        """What executes it."""
        return self.execution.made(self.run)

    def run(self) -> None:
        self.losses_RT.copy_(self.of(self.feed.tokens_RT))

    @property
    def notes(self) -> list[str]:
        return self.made.notes("evaluation")

    def losses(self, batches: Iterable[Tokens]) -> Iterator[tuple[Losses, Tokens]]:
        (part,) = self.made.parts
        for batch in batches:
            self.feed.put(torch.from_numpy(batch))
            part()
            self._send(batch)
            yield from self._arrived(LAG[self.device.type])
        yield from self._arrived(0)

    def _send(self, batch: Tokens) -> None:
        """Let the losses go to the host, while the device goes on."""
        if not self.free:
            pinned = self.device.type == "cuda"
            self.free.append(torch.empty_like(self.losses_RT, device="cpu", pin_memory=pinned))
        there = self.free.pop().copy_(self.losses_RT, non_blocking=True)
        self.on_their_way.append((there, moment_on(self.device), batch))

    def _arrived(self, lag: int) -> Iterator[tuple[Losses, Tokens]]:
        """Those that have arrived, in order; each holds until the next is asked for."""
        while len(self.on_their_way) > lag:
            losses_RT, moment, batch = self.on_their_way.popleft()
            moment.wait()
            yield losses_RT.numpy()[: len(batch)], batch
            self.free.append(losses_RT)


def scorer_on(
    model: Transformer, device: torch.device, length: int, *, rows: int, often: int, execution: Eager
) -> Scorer:
    """What scores windows of a length where the model is, at most `rows` at once, and `often` so many in all."""
    if device.type == "cuda":
        return SteadyScorer(model, device, length, min(rows, often), execution)
    return Scorer(model, device, length, rows)
