"""How much memory a run takes, also where others are beside it in the same process."""

from collections.abc import Generator
from contextlib import contextmanager

import torch

from labkit.train.device import memory_gib


class Footprint:
    """What is allocated while `counted` is the run's own. A CPU's memory is that of the whole process."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.now = self.most = 0
        """Bytes of a GPU."""

    @contextmanager
    def counted(self) -> Generator[None]:
        """Whatever happens inside is the run's."""
        if self.device.type == "cpu":
            yield
            return
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        try:
            yield
        finally:
            self.most = max(self.most, self.now + torch.cuda.max_memory_allocated(self.device) - before)
            self.now += torch.cuda.memory_allocated(self.device) - before

    @property
    def gib(self) -> float:
        """The most that the run held of a GPU so far; on a CPU, what the process holds now."""
        return self.most / 2**30 if self.device.type == "cuda" else memory_gib(self.device)
