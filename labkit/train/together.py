"""Runs side by side: one thread gives them their turns, and a GPU works on all of them at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from labkit.train.room import Room
from labkit.train.turns import Turn, Turns

K = TypeVar("K")
T = TypeVar("T")


@dataclass(eq=False)
class Member(Generic[K, T]):
    """A run, and what it said last."""

    key: K
    turns: Turns[T]
    is_told: Callable[[], bool]
    """Whether it was told to stop, for which it needs a turn."""
    said: Turn | None = None
    """Nothing before its first turn, in which it gets ready."""
    is_resting: bool = False

    @property
    def is_ready(self) -> bool:
        return self.said is None or self.said.is_ready


class Together(Generic[K, T]):
    """Gives turns to the first of its members, as many as there is room for, and passes over those that would wait."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.members: list[Member[K, T]] = []
        self.next = 0

    def __len__(self) -> int:
        return len(self.members)

    def join(self, member: Member[K, T]) -> None:
        self.members.append(member)

    def turn(self) -> tuple[Member[K, T], T] | None:
        """One turn of one run; gives the run and what came of it, where that was its last."""
        active = self._active()
        held = next((member for member in self.members if member not in active and not member.is_resting), None)
        member = held or self._chosen(active)
        member.is_resting = member is held
        try:
            member.said = member.turns.send(True if member is held else None)
        except StopIteration as over:
            self.members.remove(member)
            self.room.stir()
            return member, over.value
        self.room.see(member.said, len(active))
        return None

    def _active(self) -> list[Member[K, T]]:
        """Those that train together, and those that have to begin or to end."""
        lead = self.members[0]
        places = {index for index, member in enumerate(self.members) if self.room.admits(lead.said, member.said)}
        chosen = {0, *sorted(places)[: self.room.at_once]}
        return [m for index, m in enumerate(self.members) if index in chosen or m.said is None or m.is_told()]

    def _chosen(self, active: list[Member[K, T]]) -> Member[K, T]:
        """The next in line that is ready; where none is, the next, for which this thread then waits."""
        line = [active[(self.next + place) % len(active)] for place in range(len(active))]
        place = next((place for place, member in enumerate(line) if member.is_ready), 0)
        self.next = (self.next + place + 1) % len(active)
        return line[place]
