"""One training step: forward, backward, clip, update. Nothing in it waits for the device.

The loss is the mean over all targets of the global batch, so micro-batches add up to its gradient. A loss or norm that
is not finite raises a flag on the device that freezes every later update; (loss, norm, flag) are read some steps late.
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labkit.model import Transformer
from labkit.optim.weights import Weights
from labkit.train.moments import Moment, moment_on

LAG = {"cpu": 0, "cuda": 4}
"""How many steps a reading stays on its way, so that the host runs ahead of the device."""


@dataclass(frozen=True)
class Reading:
    """What one step measured."""

    step: int
    """Counted from 1: how many updates there are with this one."""
    loss: float
    norm: float
    """Of the gradient, before clipping."""
    frozen: bool
    """Whether this step, or one before it, was not finite and changed nothing."""
    seconds: float
    """From the end of the step before, or after a rest from its own beginning."""


class Step:
    """Steps one model; `factors` says of every step by what the learning rate of each group is multiplied."""

    def __init__(
        self,
        model: Transformer,
        weights: Weights,
        optimizer: torch.optim.Optimizer,
        *,
        factors: Sequence[float],
        clip: float | None,
        rows: int,
        dropout_seed: int,
    ) -> None:
        self.model, self.weights, self.optimizer = model, weights, optimizer
        self.clip, self.rows, self.dropout_seed = clip or math.inf, rows, dropout_seed
        self.device = weights.gradient.device
        self.rates = [self._table([group["lr"] * factor for factor in factors]) for group in optimizer.param_groups]
        self.frozen = torch.zeros((), device=self.device)
        self.on_their_way: deque[tuple[int, Tensor, Moment, Moment]] = deque()
        self.last: Moment | None = None

    def __call__(self, step: int, tokens_BT: Tensor) -> None:
        """Make update number `step`, counted from 0, on a global batch of T + 1 tokens a row."""
        before = self.last or moment_on(self.device)
        loss = self._accumulate(step, self._on_device(tokens_BT))
        norm = self.weights.norm()
        finite = torch.isfinite(loss) & torch.isfinite(norm)
        self.frozen.copy_(torch.maximum(self.frozen, (~finite).float()))
        self._update(step, norm)
        values = self._to_host(torch.stack((loss.double(), norm.double(), self.frozen.double())))
        self.last = moment_on(self.device)
        self.on_their_way.append((step, values, before, self.last))

    def rest(self) -> None:
        """Something else comes between the last step and the next: its time is not the next one's."""
        self.last = None

    def readings(self, lag: int | None = None) -> Iterator[Reading]:
        """The readings that have arrived, in order; a lag of 0 waits for all of them."""
        lag = LAG[self.device.type] if lag is None else lag
        while len(self.on_their_way) > lag:
            step, values, before, arrived = self.on_their_way.popleft()
            arrived.wait()
            loss, norm, frozen = values.tolist()
            yield Reading(step + 1, loss, norm, bool(frozen), arrived.since(before))

    def _accumulate(self, step: int, tokens_BT: Tensor) -> Tensor:
        """Gradients of the mean loss into the weights' flat gradient; gives that loss."""
        self.weights.forget_gradients()
        targets = tokens_BT.shape[0] * (tokens_BT.shape[1] - 1)
        total = torch.zeros((), device=self.device)
        for first in range(0, tokens_BT.shape[0], self.rows):
            part_BT = tokens_BT[first : first + self.rows]
            self.model.keyed(self.dropout_seed, step, first)
            loss = self.model.losses(part_BT[:, :-1], part_BT[:, 1:]).sum() / targets
            loss.backward()
            total = total + loss.detach()
        return total

    def _update(self, step: int, norm: Tensor) -> None:
        optimizer: Any = self.optimizer
        optimizer.grad_scale = (norm / self.clip).clamp(min=1).float()
        optimizer.found_inf = self.frozen
        for group, rates in zip(optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rates[step]
        optimizer.step()
        self.weights.publish()

    def _table(self, rates: list[float]) -> Sequence[float] | Tensor:
        """On a GPU the rates are there, so that no step brings its own."""
        return rates if self.device.type == "cpu" else torch.tensor(rates, device=self.device)

    def _on_device(self, tokens_BT: Tensor) -> Tensor:
        if self.device.type == "cpu":
            return tokens_BT
        return tokens_BT.pin_memory().to(self.device, non_blocking=True)

    def _to_host(self, values: Tensor) -> Tensor:
        """Where the values will have arrived when the next moment has passed."""
        if self.device.type == "cpu":
            return values
        return torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values, non_blocking=True)
