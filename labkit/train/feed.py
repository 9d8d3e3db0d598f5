"""Where a step finds its inputs: always in the same memory, so that a captured step reads the next ones there.

On a GPU they are written into pinned memory and copied ahead on a stream of their own, so that no step waits for them.

R rows, T time.
"""

from collections import deque

import torch
from torch import Tensor

from labkit.data.batches import PADDING
from labkit.train.lanes import stream_beside

AHEAD = 6
"""How many inputs may be on their way to a device at once."""


class Feed:
    """tokens_RT, and as many numbers beside them as are asked for."""

    def __init__(self, rows: int, length: int, beside: int, device: torch.device) -> None:
        self.size = rows * length
        self.values = torch.zeros(self.size + beside, dtype=torch.int64, device=device)
        self.tokens_RT, self.beside = self.values[: self.size].view(rows, length), self.values[self.size :]

    def put(self, tokens_RT: Tensor, *beside: int) -> None:
        """Let the next step read these, from the host; rows that are not given are padding."""
        self.write(self.values, tokens_RT, beside)

    def write(self, place: Tensor, tokens_RT: Tensor, beside: tuple[int, ...]) -> None:
        values, given = place.numpy(), tokens_RT.numel()
        values[:given] = tokens_RT.numpy().reshape(-1)
        values[given : self.size] = PADDING
        values[self.size :] = beside


class Slot:
    """One input on its way: where it lies on the host and on the device, and how far it has come."""

    def __init__(self, like: Tensor) -> None:
        self.pinned = torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
        self.staged = torch.empty_like(like)
        self.copied, self.taken = torch.cuda.Event(), torch.cuda.Event()


class PinnedFeed(Feed):
    """Into the memory of a GPU: the host goes on at once, until `AHEAD` inputs are on their way."""

    def __init__(self, rows: int, length: int, beside: int, device: torch.device) -> None:
        super().__init__(rows, length, beside, device)
        self.stream = stream_beside(torch.cuda.current_stream())
        self.slots = deque(Slot(self.values) for _ in range(AHEAD))

    def put(self, tokens_RT: Tensor, *beside: int) -> None:
        slot, here = self.slots[0], torch.cuda.current_stream()
        self.slots.rotate(-1)
        slot.copied.synchronize()
        self.write(slot.pinned, tokens_RT, beside)
        with torch.cuda.stream(self.stream):
            slot.taken.wait()
            slot.staged.copy_(slot.pinned, non_blocking=True)
            slot.copied.record()
        slot.copied.wait(here)
        self.values.copy_(slot.staged, non_blocking=True)
        slot.taken.record()


def feed_on(device: torch.device, rows: int, length: int, beside: int = 0) -> Feed:
    """The feed of a device."""
    return (PinnedFeed if device.type == "cuda" else Feed)(rows, length, beside, device)
