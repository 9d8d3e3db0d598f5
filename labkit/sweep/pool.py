"""A pool of workers that take runs as there are some to be taken, each as many at once as it has room for."""

import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.study.crew import PUT_BACK
from labkit.study.executors import Answer, Slot, Worker
from labkit.tracking.record import Run

HEAR, LOOK = 0.02, 0.05
"""Seconds between two times that the workers are listened to, and that what they measure is looked at meanwhile."""


@dataclass(frozen=True)
class Ended:
    """A run that a worker is done with."""

    work: Any
    """What was given with the run."""
    answer: Answer


@dataclass
class Post:
    """A slot's worker, and what it is at."""

    slot: Slot
    worker: Worker | None = None
    works: dict[Path, Any] = field(default_factory=dict[Path, Any])

    @property
    def has_room(self) -> bool:
        return not self.works or (self.worker is not None and len(self.works) < self.worker.room)

    def end(self) -> None:
        """Have no worker."""
        if self.worker is not None:
            self.worker.end()
        self.worker = None


class Pool:
    """Give it runs while `idle`; look at `ended` in the same thread; `leave` and `kill` end it early."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.posts = [Post(slot) for slot in slots]
        self.told: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self.leaving = False

    @property
    def busy(self) -> int:
        """Runs that are under way, or over and not looked at yet."""
        return sum(len(post.works) for post in self.posts) + self.told.qsize()

    @property
    def idle(self) -> bool:
        """Whether a worker has room for a run."""
        return not self.leaving and any(post.has_room for post in self.posts)

    def give(self, work: Any, run: Run) -> None:
        """Have a run trained by the worker that has the fewest."""
        post = min((post for post in self.posts if post.has_room), key=lambda post: len(post.works))
        try:
            if post.worker is not None and not post.works and not (post.worker.is_alive and post.worker.room):
                post.end()
            post.worker = post.worker or Worker(post.slot)
        except Exception as error:  # a full disk, no more processes: this run's failure, not the pool's
            self.told.put(Ended(work, Answer("failed", f"{type(error).__name__}: {error}", died=True)))
            return
        post.works[run.path] = work
        post.worker.give(run)

    def ended(self, timeout: float, meanwhile: Callable[[], None]) -> Ended | None:
        """The next run that is over; None where none is after so many seconds, in which `meanwhile` is done often."""
        looked = time.monotonic()
        until = looked + timeout
        while True:
            for post in self.posts:
                self._hear(post)
            if not self.told.empty():
                return self.told.get()
            if (now := time.monotonic()) - looked >= LOOK:
                looked = now
                meanwhile()
            if (left := until - time.monotonic()) <= 0:
                return None
            time.sleep(min(left, HEAR))

    def leave(self) -> None:
        """Have the workers checkpoint and leave."""
        self.leaving = True
        for post in self.posts:
            if post.worker is not None:
                post.worker.leave()

    def kill(self) -> None:
        self.leaving = True
        for post in self.posts:
            if post.worker is not None:
                post.worker.kill()

    def close(self) -> None:
        """Let everybody go home, and wait until they have."""
        for post in self.posts:
            post.end()

    def _hear(self, post: Post) -> None:
        """What a worker has said of its runs; when it is gone, that of all of them."""
        while post.worker is not None and post.works:
            told = post.worker.answer(0)
            if told is None:
                return
            if isinstance(told, Answer):
                works, post.works = list(post.works.values()), {}
                post.end()
                for work in works:
                    self._say(work, told)
            elif (work := post.works.pop(told[0], None)) is not None:
                self._say(work, told[1])

    def _say(self, work: Any, answer: Answer) -> None:
        if answer.status in PUT_BACK:
            answer = Answer("busy")
        elif answer.died and self.leaving:
            answer = Answer("paused")
        self.told.put(Ended(work, answer))
