# pyright: basic
"""Kernels compiled before they are run: all that some work launches at once, each in a process of its own.

Triton compiles a kernel when it is first launched, one after another. Here the work is gone through once without
launching any; what it asks for is compiled by forked children into Triton's cache on disk, and read from there.
A child never touches the GPU: it knows the target, and ends when its kernel is written.
"""

import gc
import hashlib
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

try:
    from triton.runtime import _async_compile as _modes
    from triton.runtime import driver as _driver
    from triton.runtime.cache import get_cache_manager
    from triton.runtime.jit import JITFunction
except ImportError:  # there is no Triton, or one that says nothing of what it compiles: then kernels compile one by one
    _modes: Any = None
    _driver: Any = None
    get_cache_manager: Any = None
    JITFunction: Any = None

Work = Callable[[], None]
Compile = Callable[[], Any]


class Cold(Exception):
    """A kernel is not on disk."""


class Warm:
    """Takes kernels that are on disk from there. Raises Cold for any other."""

    def submit(self, key: str, compile_: Compile, finish: Callable[[Any], None], *_: Any) -> Any:
        if not on_disk(key):
            raise Cold
        kernel = compile_()
        finish(kernel)
        return kernel


@dataclass
class Batch:
    """What to compile, and who waits for it."""

    compile: Compile
    is_new: bool
    takers: list[Callable[[Any], None]]


class Kiln:
    """Gathers kernels, to compile them all at once."""

    def __init__(self) -> None:
        self.batches: dict[str, Batch] = {}

    @property
    def count(self) -> int:
        return len(self.batches)

    @property
    def compiled(self) -> int:
        """How many were not on disk."""
        return sum(batch.is_new for batch in self.batches.values())

    def submit(self, key: str, compile_: Compile, finish: Callable[[Any], None], *_: Any) -> None:
        if key not in self.batches:
            self.batches[key] = Batch(compile_, not on_disk(key), [])
        self.batches[key].takers.append(finish)

    def fire(self) -> None:
        """Have them all. Raises what compiling one of them raises."""
        in_children([partial(_whole, batch.compile) for batch in self.batches.values() if batch.is_new])
        for batch in self.batches.values():
            kernel = batch.compile()
            for take in batch.takers:
                take(kernel)


def ready(work: Work) -> None:
    """Do some work once, and before, if a kernel that it launches is not on disk, compile all of them in parallel.

    Then the work is begun three times, which has to leave no trace.
    """
    if _modes is None:
        work()
        return
    try:
        with _mode(Warm()):
            work()
    except Cold:
        with compiling(), only_compiled():
            work()
        work()


@contextmanager
def compiling() -> Iterator[Kiln]:
    """All kernels that are asked for inside are compiled when it is left."""
    kiln = Kiln()
    with _mode(kiln):
        yield kiln
    kiln.fire()


@contextmanager
def only_compiled() -> Iterator[None]:
    """Kernels are not launched inside, so that what they would have written is anything."""
    run = JITFunction.run

    def asked_for(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        return run(self, *args, grid=grid, warmup=True, **options)

    JITFunction.run = asked_for
    try:
        yield
    finally:
        JITFunction.run = run


@contextmanager
def _mode(mode: Any) -> Iterator[None]:
    token = _modes.active_mode.set(mode)
    try:
        yield
    finally:
        _modes.active_mode.reset(token)


def on_disk(key: str) -> bool:
    """Whether a kernel is in Triton's cache."""
    manager = get_cache_manager(hashlib.sha256(key.encode()).hexdigest())
    folder = getattr(manager, "cache_dir", None)
    return folder is not None and any(Path(folder).glob("*.json"))


def _whole(compile_: Compile) -> None:
    """A kernel, and what launches it, which some Tritons have a C compiler make."""
    kernel = compile_()
    _driver.active.launcher_cls(kernel.src, kernel.metadata)


PATIENCE = 60.0
"""Seconds that the children have altogether, after which what is missing is compiled here."""


def in_children(works: Sequence[Compile]) -> None:
    """Do works in forked children, one a processor at a time; what becomes of them is seen by what they leave on disk.

    They are forked by this thread alone, while no other one does anything.
    """
    waiting, running = list(works), set[int]()
    deadline = time.monotonic() + PATIENCE
    while (waiting or running) and time.monotonic() < deadline:
        while waiting and len(running) < len(os.sched_getaffinity(0)):
            running.add(_forked(waiting.pop(0)))
        running = {pid for pid in running if os.waitpid(pid, os.WNOHANG) == (0, 0)}
        time.sleep(0.002)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _forked(work: Compile) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, all of which are idle here
        pid = os.fork()
    if pid == 0:
        gc.disable()  # what it would free belongs to the parent's GPU
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid
