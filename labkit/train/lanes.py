"""Where the work of a run is queued: in a lane of its own, so that runs side by side never wait for each other.

A lane is a stream that no other lane has, on which its graphs are captured and replayed: cuBLAS keeps a workspace for
each stream, and two graphs that share one would write over each other. Lanes are made once and taken again.
"""

from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch

_taken: dict[int, set[int]] = {}
"""The streams in use of each device, by their handles: torch hands out thirty-two, over and over."""
TRIES = 64


class Lane:
    """On a CPU there is nothing to keep apart."""

    @contextmanager
    def turn(self) -> Generator[None]:
        """What happens inside is queued here."""
        yield


class CudaLane(Lane):
    """A stream, and the state of torch's random numbers that graphs captured on it draw from."""

    def __init__(self, device: torch.device) -> None:
        self.stream = distinct_stream(device)
        self.default: Any = torch.cuda.default_generators[device.index or 0]
        self.drawn = self.default.clone_state()

    @contextmanager
    def turn(self) -> Generator[None]:
        before = self.default.graphsafe_get_state()
        with torch.cuda.stream(self.stream):
            self.default.graphsafe_set_state(self.drawn)
            try:
                yield
            finally:
                self.default.graphsafe_set_state(before)


@lru_cache
def lane(device: torch.device, index: int = 0) -> Lane:
    """A device's lane number `index`."""
    return CudaLane(device) if device.type == "cuda" else Lane()


@lru_cache
def _beside(device: torch.device, handle: int) -> torch.cuda.Stream:
    return distinct_stream(device)


def stream_beside(stream: torch.cuda.Stream) -> torch.cuda.Stream:
    """What copies the inputs of a stream ahead; always the same."""
    return _beside(stream.device, stream.cuda_stream)


def distinct_stream(device: torch.device) -> torch.cuda.Stream:
    """A stream that was never given here before. Raises RuntimeError where all are taken."""
    taken = _taken.setdefault(device.index or 0, set())
    for _ in range(TRIES):
        stream = torch.cuda.Stream(device)
        if stream.cuda_stream not in taken:
            taken.add(stream.cuda_stream)
            return stream
    raise RuntimeError(f"{device}: its {len(taken)} streams are all in use")
