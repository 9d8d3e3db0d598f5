"""The processes that share the batch of a run, each on a device of its own: what they sum, and how they meet.

Of N, number r takes the rows [r B/N, (r + 1) B/N) of every global batch of B. Gradients are summed over all of them at
once; whatever follows each does for itself, to the same bits. Number 0 keeps the record, evaluates and saves.
"""

import os
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

dist: Any = torch.distributed
Store = Any
"""torch.distributed's."""

HERE = "127.0.0.1"
"""Where they meet: a group is of one machine."""

Holds = Callable[[], str]
"""A text for all that has to be the same in every process; another one for anything else."""

GRACE = 5.0
"""Seconds until a process says that a sum has failed, which mostly is of another one's end."""


class Group:
    """A process alone, which has the whole batch, and nobody to tell what it does."""

    rank, size = 0, 1
    is_amid = False
    """Whether the others are at a run."""

    @property
    def key(self) -> tuple[int, ...]:
        """What tells torch's own random numbers of this process from those of number 0."""
        return (self.rank,) if self.rank else ()

    def share(self, batch_size: int) -> tuple[int, int]:
        """The rows of the global batch that this process takes: the first, and the one after the last."""
        return batch_size * self.rank // self.size, batch_size * (self.rank + 1) // self.size

    def sum(self, values: Tensor) -> None:
        """Put the sum over all processes in place of the values that each has."""

    @contextmanager
    def rehearsal(self) -> Generator[None]:
        """Each may go through its step as often as it likes inside: nothing is summed, but a sum may be captured."""
        yield

    def begin(self, run: Path, step: int | None, device: torch.device) -> None:
        """Have all begin a run, at the checkpoint after so many steps where there is one. Waits for them to meet."""

    def ready(self, how: str, holds: Holds) -> None:
        """Wait until all could make a step. Raises Mistake where one executes it otherwise than `how`, or where it
        holds another model.
        """

    def go(self, step: int) -> None:
        """Have all make a step."""

    def agree(self, step: int, holds: Holds, keeps: Holds) -> bool:
        """Whether all have the same buffers. Raises Mistake where one has other weights after so many steps."""
        return True

    def end(self) -> None:
        """Have all be done with the run."""

    def close(self) -> None:
        """Have all leave."""


ALONE = Group()


class Ranks(Group):
    """Number `rank` of several. Sums are NCCL's on GPUs and Gloo's on CPUs.

    Where numbers are to be exact, NCCL is asked for its ring (NCCL_ALGO, unless that is set): it adds in one order,
    and hands the result on, so that the same number of processes on the same GPUs has the same bits in all of them and
    every time. Another number changes the last digits, as another micro-batch does.
    """

    def __init__(self, rank: int, size: int, store: Store, *, exact: bool) -> None:
        self.rank, self.size, self.store, self.exact = rank, size, store, exact
        self.is_rehearsing = self.has_met = False
        self.meetings = 0

    def meet(self, device: torch.device) -> None:
        """Wait for the others, once a run, before anything is summed."""
        self.meetings += 1
        self.store.set(self.place(self.rank), "")
        self.expect()
        if self.has_met:
            return
        self.has_met, of = True, {"rank": self.rank, "world_size": self.size, "store": self.store}
        if device.type == "cuda":
            if self.exact:
                os.environ.setdefault("NCCL_ALGO", "Ring")
            os.environ.setdefault("NCCL_GRAPH_REGISTER", "0")  # or the others would hold memory that is freed here
            dist.init_process_group("nccl", device_id=device, **of)
        else:
            if "lo" in (name for _, name in socket.if_nameindex()):
                os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
            dist.init_process_group("gloo", **of)

    def expect(self) -> None:
        """Wait until all have come to the meeting, where that is to be known."""

    def place(self, rank: int) -> str:
        """Where in the store a process says that it has come to the meeting."""
        return f"meeting {self.meetings}/{rank}"

    def sum(self, values: Tensor) -> None:
        """On a GPU the host does not wait for it: the current stream does."""
        if self.is_rehearsing and not (values.is_cuda and torch.cuda.is_current_stream_capturing()):
            return
        try:
            dist.all_reduce(values)
        except RuntimeError:
            time.sleep(GRACE)  # until number 0 has ended all of them, for it knows who is gone, and why
            raise

    @contextmanager
    def rehearsal(self) -> Generator[None]:
        self.is_rehearsing = True
        try:
            yield
        finally:
            self.is_rehearsing = False


def opened(size: int) -> tuple[Store, int]:
    """What processes of this machine find each other by, served from this one, and its port."""
    listener = socket.create_server((HERE, 0))
    port = listener.getsockname()[1]
    options = {"is_master": True, "wait_for_workers": False, "master_listen_fd": listener.detach()}
    return dist.TCPStore(HERE, port, size, **options), port


def found(port: int, size: int) -> Store:
    """The same, from another process."""
    return dist.TCPStore(HERE, port, size, is_master=False)
