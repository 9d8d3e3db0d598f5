"""Parts of a run as CUDA graphs: captured once, and replayed without the host.

They are run before, where they leave no trace: kernels get loaded, and whatever waits for the device is found out, so
that a capture is only begun where it will succeed. All of it happens on the current stream, in this thread.
"""

import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from labkit.kernels.warm import ready
from labkit.train.execution import Eager, Made, Part

_cuda: Any = torch.cuda
_internals: Any = torch._C  # pyright: ignore[reportPrivateUsage]

TORCH = Path(torch.__file__).parent
WAITS = "called a synchronizing CUDA operation"
"""What torch says of one in its debug mode."""


class Uncapturable(Exception):
    """Why parts cannot be captured."""


class Captured(Eager):
    """As CUDA graphs, all of one call with one pool of memory; eager where that cannot be."""

    how = "captured"

    def made(self, *parts: Part) -> Made:
        with torch.autograd.set_multithreading_enabled(False):
            try:
                warm_up(parts)
                return Made(captured(parts), self.how)
            except Uncapturable as reason:
                return Made(parts, Eager.how, str(reason))


def warm_up(parts: Sequence[Part]) -> None:
    """Run the parts so that nothing is new to them any more, and give back the memory that they took.

    Raises Uncapturable for one that waits for the device, not only the first time.
    """
    try:
        ready(lambda: rehearse(parts))
    except Uncapturable:
        rehearse(parts)
    _cuda.synchronize()
    _cuda.empty_cache()


def rehearse(parts: Sequence[Part]) -> None:
    """Run the parts once. Raises Uncapturable for one that waits for the device."""
    try:
        with waiting_refused():
            for part in parts:
                part()
    except RuntimeError as error:
        if WAITS not in str(error):
            raise
        raise Uncapturable(f"{place(error)} waits for the device") from error


@contextmanager
def waiting_refused() -> Generator[None]:
    """An operation that waits for the device is an error inside."""
    before = _cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode")
        _cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        _cuda.set_sync_debug_mode(before)


def captured(parts: Sequence[Part]) -> tuple[Callable[[], None], ...]:
    """What replays the parts. Raises Uncapturable."""
    pool = _cuda.graph_pool_handle()
    return tuple(_capture(part, pool).replay for part in parts)


def _capture(part: Part, pool: Any) -> Any:
    graph = _cuda.CUDAGraph()
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        part()
        graph.capture_end()
    except torch.OutOfMemoryError:
        _abandon(graph, pool)
        raise
    except RuntimeError as error:
        _abandon(graph, pool)
        raise Uncapturable(f"{place(error)}: {str(error).splitlines()[0]}") from error
    return graph


def _abandon(graph: Any, pool: Any) -> None:
    """End a capture that went wrong; where torch cannot, its allocator is told, which it forgets."""
    try:
        graph.capture_end()
    except RuntimeError:
        device = _cuda.current_device()
        _internals._cuda_endAllocateToPool(device, pool)
        _internals._cuda_releasePool(device, pool)


def place(error: BaseException) -> str:
    """Where an error arose, by the last line that is not torch's: ``mine.py:12 (if x.sum() > 0:)``."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if TORCH not in Path(frame.filename).parents]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno} ({own[-1].line})"
