"""How long work reports how far it is, without knowing who looks."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

Advance = Callable[[float], None]


class Progress:
    """Nobody looks; the console's progress shows bars."""

    @contextmanager
    def task(self, description: str, total: float | None = None, unit: str = "") -> Generator[Advance]:
        """A stage of work of `total` units (None: unknown); call what it gives with each amount done."""
        yield lambda _: None

    @contextmanager
    def slow(self, what: str) -> Generator[None]:
        """Work that mostly takes no time, and of which a word is said where it does."""
        yield
