"""Points in the time of a device, which on a GPU is not the host's: the host runs ahead of it."""

import time
from typing import Protocol, Self

import torch


class Moment(Protocol):
    """When the work given to a device so far was done."""

    @property
    def passed(self) -> bool:
        """Whether it has."""
        ...

    def wait(self) -> None:
        """Return when it has passed."""
        ...

    def since(self, earlier: Self) -> float:
        """Seconds between two moments that have passed."""
        ...


class HostMoment:
    """On a CPU it is now."""

    def __init__(self) -> None:
        self.at = time.perf_counter()

    @property
    def passed(self) -> bool:
        return True

    def wait(self) -> None:
        pass

    def since(self, earlier: "HostMoment") -> float:
        return self.at - earlier.at


class CudaMoment:
    """On a GPU it is when the stream gets there."""

    def __init__(self) -> None:
        self.event = torch.cuda.Event(enable_timing=True)
        self.event.record()

    @property
    def passed(self) -> bool:
        return self.event.query()

    def wait(self) -> None:
        self.event.synchronize()

    def since(self, earlier: "CudaMoment") -> float:
        return earlier.event.elapsed_time(self.event) / 1000


def moment_on(device: torch.device) -> Moment:
    """The moment when a device will have done what it was given so far."""
    return CudaMoment() if device.type == "cuda" else HostMoment()
