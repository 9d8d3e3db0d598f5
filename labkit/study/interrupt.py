"""Ctrl-C as a count that a loop looks at, so that it can end in good order."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Interrupts:
    """How often Ctrl-C was pressed, and how often that was acted upon."""

    pressed: int = 0
    heeded: int = 0

    @property
    def new(self) -> bool:
        """Whether it was pressed again since the last look."""
        fresh, self.heeded = self.pressed > self.heeded, self.pressed
        return fresh


@contextmanager
def counted_interrupts() -> Generator[Interrupts]:
    """Count SIGINT and SIGTERM instead of dying of them; they reach the main thread only."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return

    def press(_number: int, _frame: FrameType | None) -> None:
        interrupts.pressed += 1

    before = {number: signal.signal(number, press) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
