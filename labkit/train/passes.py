"""What one training step computes: forward, backward, clip, update. Every tensor stays where it is, none is asked for.

The loss is the mean over all targets of the global batch, so micro-batches add up to its gradient, and those of several
processes as well: one all-reduce, with which the update begins. A loss or norm that is not finite raises a flag on the
device that freezes every later update.
"""

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from labkit.kernels import verdict
from labkit.optim.stepper import Stepper
from labkit.optim.weights import Weights
from labkit.train.distributed import Group
from labkit.train.feed import Feed
from labkit.train.rates import rates_on

Losses = Callable[[Tensor, Tensor, float], Tensor]
"""tokens_BT, targets_BT and scale -> losses_BT, as a model has it."""


class Passes:
    """The step whose micro-batch is in `feed`, with its key (seed, step, first row) beside it."""

    def __init__(
        self,
        losses: Losses,
        weights: Weights,
        optimizer: Stepper,
        feed: Feed,
        group: Group,
        *,
        factors: Sequence[float],
        clip: float | None,
        targets: int,
    ) -> None:
        """`targets` are those of the global batch; `factors` multiply the learning rate of each step."""
        self.losses, self.weights, self.optimizer, self.feed, self.group = losses, weights, optimizer, feed, group
        self.clip, self.targets = clip or math.inf, targets
        device = weights.gradient.device
        self.rates = rates_on(device, optimizer, factors, feed.beside[1:2])
        self.frozen, self.divisor = torch.zeros((), device=device), torch.ones((), device=device)
        self.values = torch.zeros(3, dtype=torch.float64, device=device)
        """(loss, norm, frozen) of the last step."""

    def whole(self) -> None:
        """A step of one micro-batch, whose gradients take the place of those before."""
        self.weights.loss.zero_()
        with self.weights.replaced():
            self.micro()
        self.update()

    def begin(self) -> None:
        """The beginning of a step of several micro-batches."""
        self.weights.loss.zero_()
        self.weights.forget_gradients()

    def micro(self) -> None:
        """Add the gradients and the loss of a micro-batch."""
        tokens_RT = self.feed.tokens_RT
        loss = self.losses(tokens_RT[:, :-1], tokens_RT[:, 1:], 1 / self.targets).sum()
        loss.backward()
        self.weights.loss.add_(loss.detach())

    def update(self) -> None:
        """Sum over the group, clip the gradients, move the weights, and leave what was measured in `values`."""
        self.group.sum(self.weights.summed)
        norm, optimizer = self.weights.norm(), self.optimizer
        verdict(self.weights.loss, norm, self.clip, frozen=self.frozen, divisor=self.divisor, values_3=self.values)
        optimizer.grad_scale, optimizer.found_inf = self.divisor, self.frozen
        self.rates.set()
        self.optimizer.step()
        if not self.optimizer.publishes:
            self.weights.publish()

    @contextmanager
    def unchanged(self) -> Generator[None]:
        """What runs inside leaves the weights, the optimizer and the model's buffers as they are."""
        buffers = [(buffer, buffer.clone()) for buffer in self.weights.model.buffers()]
        self.frozen.fill_(1)
        with self.group.rehearsal():
            yield
        self.frozen.zero_()
        for buffer, before in buffers:
            buffer.copy_(before)
