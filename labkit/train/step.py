"""The steps of a run: where their inputs come from, what runs, and where what they measured goes."""

from collections.abc import Iterator, Sequence

from torch import Tensor

from labkit.model import Transformer
from labkit.optim.stepper import Stepper
from labkit.optim.weights import Weights
from labkit.train.distributed import ALONE, Group
from labkit.train.execution import Eager, Made
from labkit.train.feed import feed_on
from labkit.train.passes import Passes
from labkit.train.reading import Reading, Readings


class Step:
    """Steps one model; nothing in it waits for the device."""

    def __init__(
        self,
        model: Transformer,
        weights: Weights,
        optimizer: Stepper,
        *,
        factors: Sequence[float],
        clip: float | None,
        batch_size: int,
        length: int,
        rows: int,
        dropout_seed: int,
        execution: Eager,
        group: Group = ALONE,
    ) -> None:
        """`factors` multiply the learning rate of each step; a micro-batch has `rows` of `length` tokens.

        `batch_size` is that of the global batch, of which each process of the group takes its share.
        """
        self.model, self.weights, self.optimizer, self.execution = model, weights, optimizer, execution
        self.rows, self.dropout_seed, self.group = rows, dropout_seed, group
        self.first, last = group.share(batch_size)
        self.batch_size = last - self.first
        device = weights.gradient.device
        self.feed = feed_on(device, rows, length + 1, beside=3)
        model.keyed_by(self.feed.beside)
        self.passes = Passes(
            execution.losses(model),
            weights,
            optimizer,
            self.feed,
            group,
            factors=factors,
            clip=clip,
            targets=batch_size * length,
        )
        self.sent = Readings(device)
        if rows == self.batch_size:
            self.begin, parts = nothing, (self.passes.whole,)
        else:
            self.begin, parts = self.passes.begin, (self.passes.micro, self.passes.update)
        self.made = Made(parts, Eager.how)

    def prepare(self) -> None:
        """Get ready what executes the steps; weights and optimizer stay as they are, or may be set afterwards."""
        self.group.sum(self.weights.summed)  # nothing yet: processes have to have met before a capture
        with self.passes.unchanged():
            self.made = self.execution.made(*self.made.parts)

    def __call__(self, step: int, tokens_BT: Tensor) -> None:
        """Make update number `step`, counted from 0, on this process's share of the batch, T + 1 tokens a row, on the
        host.
        """
        since = self.sent.start()
        each, *rest = self.made.parts
        self.begin()
        for first in range(0, self.batch_size, self.rows):
            self.feed.put(tokens_BT[first : first + self.rows], self.dropout_seed, step, self.first + first)
            each()
        for part in rest:
            part()
        self.sent.send(step, self.passes.values, since)

    def readings(self, lag: int | None = None) -> Iterator[Reading]:
        """The readings that have arrived, in order; a lag of 0 waits for all of them."""
        return self.sent.arrived(lag)

    def rest(self) -> None:
        """Something else comes between the last step and the next: its time is not the next one's."""
        self.sent.rest()


def nothing() -> None:
    """What a step of one micro-batch begins with."""
