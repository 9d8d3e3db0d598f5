"""Training as an iterator: what a run says between two turns, and how its turns are taken."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeVar

from labkit.train.moments import Moment

T = TypeVar("T")


@dataclass(frozen=True)
class Turn:
    """What a run has just done; it waits to be given its next turn."""

    tokens: int = 0
    """What it trained on; 0 where it did something else, which may have taken long."""
    until: Moment | None = None
    """What its next turn would wait for."""
    captured: bool = False
    """Whether its steps leave the host free."""
    memory: int = 0
    """Bytes of a GPU that it has held at most."""

    @property
    def is_ready(self) -> bool:
        """Whether its next turn would not have to wait."""
        return self.until is None or self.until.passed


Turns = Generator[Turn, bool | None, T]
"""A run in turns; it ends with what came of it. Sent True it rests, until its next turn."""


def finished(turns: Turns[T]) -> T:
    """What comes of turns that are taken one after another."""
    while True:
        try:
            next(turns)
        except StopIteration as over:
            return over.value


def each_in(turns: Turns[T], place: Callable[[], AbstractContextManager[object]]) -> Turns[T]:
    """The same turns, each of them in a context of its own, which is left between two."""
    asked = None
    while True:
        with place():
            try:
                turn = turns.send(asked)
            except StopIteration as over:
                return over.value
        asked = yield turn
