"""What steps measured, on its way from the device to the host, some steps late, so that neither waits for the other."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

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


class Readings:
    """A queue of (step, values, from when, to when)."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.on_their_way: deque[tuple[int, Tensor, Moment, Moment]] = deque()
        self.free: list[Tensor] = []
        self.last: Moment | None = None

    def start(self) -> Moment:
        """When the step that is about to be made begins."""
        return self.last or moment_on(self.device)

    def send(self, step: int, values: Tensor, since: Moment) -> None:
        """Let (loss, norm, frozen) of a step that began at a moment go to the host; they may change right after."""
        there = self._to_host(values)
        self.last = moment_on(self.device)
        self.on_their_way.append((step, there, since, self.last))

    def arrived(self, lag: int | None = None) -> Iterator[Reading]:
        """Those that have arrived, in order; a lag of 0 waits for all of them."""
        lag = LAG[self.device.type] if lag is None else lag
        while len(self.on_their_way) > lag:
            step, values, before, arrived = self.on_their_way.popleft()
            arrived.wait()
            loss, norm, frozen = values.tolist()
            self.free.append(values)
            yield Reading(step + 1, loss, norm, bool(frozen), arrived.since(before))

    @property
    def oldest(self) -> Moment | None:
        """What sending one more would wait for."""
        full = len(self.on_their_way) >= LAG[self.device.type]
        return self.on_their_way[0][3] if full and self.on_their_way else None

    def rest(self) -> None:
        """Something else comes between the last step and the next: its time is not the next one's."""
        self.last = None

    def _to_host(self, values: Tensor) -> Tensor:
        """Where the values will have arrived when the next moment has passed."""
        if not self.free:
            self.free.append(torch.empty_like(values, device="cpu", pin_memory=self.device.type == "cuda"))
        return self.free.pop().copy_(values, non_blocking=True)
