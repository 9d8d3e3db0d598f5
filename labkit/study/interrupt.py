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
    is_raising: bool = False

    @property
    def new(self) -> bool:
        """Whether it was pressed again since the last look."""
        fresh, self.heeded = self.is_due, self.pressed
        return fresh

    @property
    def is_due(self) -> bool:
        """The same, and it is still to be acted upon."""
        return self.pressed > self.heeded

    @contextmanager
    def raising(self) -> Generator[None]:
        """What looks at no count inside is ended by a press, which counts as well. Raises KeyboardInterrupt."""
        self.is_raising = True
        try:
            yield
        finally:
            self.is_raising = False


@contextmanager
def counted_interrupts() -> Generator[Interrupts]:
    """Count SIGINT and SIGTERM instead of dying of them; they reach the main thread only."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return

    def press(_number: int, _frame: FrameType | None) -> None:
        interrupts.pressed += 1
        if interrupts.is_raising:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, press) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
