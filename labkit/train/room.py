"""How many runs train side by side: as many as are asked for, or as many as a GPU is faster with, which is measured.

The measurement is training itself: one run, then two, four, eight, each for a while, and no step is wasted.
"""

import time
from dataclasses import dataclass
from typing import Literal

import torch

from labkit.train.run import MOST_SIDE_BY_SIDE
from labkit.train.turns import Turn

SECONDS, WINDOWS = 0.2, 3
"""Of undisturbed training, so many times, that one number of runs is judged by: the fastest counts, for whatever slows
one down is not the GPU.
"""
GAIN = 1.05
"""By how much twice as many runs must raise the tokens per second."""
SETTLING = 6
"""Turns of each run after a disturbance that are not counted, in which the queues of the device fill."""
SPARE = 1.3
"""How much of its own memory another run may take."""


class Room:
    """A fixed number of runs."""

    def __init__(self, at_once: int = 1) -> None:
        self.at_once = at_once
        """How many may have turns."""

    @property
    def wanted(self) -> int:
        """How many there should be."""
        return self.at_once

    def admits(self, lead: Turn | None, other: Turn | None) -> bool:
        """Whether a run may train beside the first one."""
        return True

    def see(self, turn: Turn, training: int) -> None:
        """Take account of what one of so many runs has just done."""

    def stir(self) -> None:
        """The speed is about to change."""

    def shrink(self, to: int) -> None:
        """No more than so many go together."""
        self.at_once = max(1, min(self.at_once, to))


@dataclass
class Stretch:
    """Training with nothing between."""

    turns: int = 0
    tokens: int = 0
    since: float = 0.0
    now: float = 0.0


class MeasuredRoom(Room):
    """One run, and twice as many while that trains more tokens in a second and the memory suffices."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.rates: dict[int, float] = {}
        """Tokens per second by the number of runs."""
        self.most = MOST_SIDE_BY_SIDE
        self.windows: list[float] = []
        self.tokens, self.seconds = 0, 0.0
        self.stretch = Stretch()

    @property
    def is_settled(self) -> bool:
        return self.at_once in self.rates

    def admits(self, lead: Turn | None, other: Turn | None) -> bool:
        """A step that is not captured keeps the host from all others."""
        return lead is not None and other is not None and lead.captured and other.captured

    def see(self, turn: Turn, training: int) -> None:
        if not turn.tokens or training != self.at_once:
            self.stir()
        elif turn.captured and not self.is_settled:
            self._count(turn.tokens)
            if self.seconds + self.stretch.now - self.stretch.since >= SECONDS:
                self._judge(turn.memory)

    def stir(self) -> None:
        """Keep what the stretch that ends here has shown."""
        self.tokens += self.stretch.tokens
        self.seconds += self.stretch.now - self.stretch.since
        self.stretch = Stretch()

    def shrink(self, to: int) -> None:
        super().shrink(to)
        self.most = self.at_once
        self.rates.setdefault(self.at_once, 0.0)

    def _count(self, tokens: int) -> None:
        stretch = self.stretch
        stretch.turns += 1
        if stretch.turns == SETTLING * self.at_once:
            stretch.since = stretch.now = time.perf_counter()
        elif stretch.turns > SETTLING * self.at_once:
            stretch.now = time.perf_counter()
            stretch.tokens += tokens

    def _judge(self, memory: int) -> None:
        """Take one more window; the last of them decides."""
        settled = self.stretch
        self.stir()
        self.windows.append(self.tokens / self.seconds)
        self.tokens, self.seconds = 0, 0.0
        self.stretch = Stretch(settled.turns, 0, settled.now, settled.now)
        if len(self.windows) == WINDOWS:
            self._decide(memory)

    def _decide(self, memory: int) -> None:
        count, self.stretch = self.at_once, Stretch()
        self.rates[count] = max(self.windows)
        self.windows = []
        if count > 1 and self.rates[count] < GAIN * self.rates[count // 2]:
            self.at_once = count // 2
        elif 2 * count <= self.most and count * SPARE * memory <= free(self.device):
            self.at_once = 2 * count


def free(device: torch.device) -> int:
    """Bytes of a device that may still be allocated."""
    if device.type == "cpu":
        return 0
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached


def room_for(asked: int | Literal["auto"], device: torch.device) -> Room:
    """As much as a runtime asks for; a CPU has all cores at work with one run each, in workers of their own."""
    if asked == "auto":
        return MeasuredRoom(device) if device.type == "cuda" else Room()
    return Room(asked)
