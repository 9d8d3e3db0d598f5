"""The crew: one worker a slot, which takes jobs, as many at once as it has room for, until there are none left."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from labkit.study.executors import Answer, Slot, Worker
from labkit.study.plan import Job

Turn = Literal["train", "over", "elsewhere", "failed"]
"""What a job's turn finds: a run to be trained; one that needs nothing more; one that another process is training; one
whose folder could not be made ready."""

PAUSE = 0.2
"""Seconds between two looks, of the driver and of a worker with nothing to do."""


@dataclass(frozen=True)
class Event:
    """What happened to a job. Without an answer: a worker has taken it."""

    job: Job
    answer: Answer | None = None


PUT_BACK = ("busy", "reload", "again")
"""Answers after which a job is to be had again: another process has the run; other sources are loaded in the worker;
the worker had to leave for another run's sake."""


@dataclass
class Post:
    """A slot's worker, and the jobs that it is at."""

    slot: Slot
    worker: Worker | None = None
    jobs: dict[Path, Job] = field(default_factory=dict[Path, Job])
    is_alone: bool = False
    """Its worker is for one job only."""

    def takes(self, most: int) -> bool:
        """Whether there is room for one more job, where the slot's share is so many."""
        room = 1 if self.worker is None or self.is_alone else self.worker.room
        return not self.jobs or len(self.jobs) < min(room, most)

    @property
    def is_spent(self) -> bool:
        """Whether its worker, which has nothing to do, takes no other job."""
        return self.worker is not None and (self.is_alone or not self.worker.room or not self.worker.is_alive)

    def end(self) -> None:
        """Have no worker."""
        if self.worker is not None:
            self.worker.end()
        self.worker, self.is_alone = None, False


class Crew:
    """Trains jobs on slots. Iterate over `events` in the main thread; `leave` and `kill` end it early."""

    def __init__(self, slots: Sequence[Slot], jobs: Sequence[Job], turn: Callable[[Job], Turn]) -> None:
        self.turn = turn
        self.waiting = list(jobs)
        self.alone: set[Job] = set()
        """Those that a worker died with, among others: which of them it died of is seen when each has its own."""
        self.posts = [Post(slot) for slot in slots[: len(jobs)]]
        self.elsewhere: set[Job] = set()
        self.lock = threading.Lock()
        self.happened: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.leaving = threading.Event()
        self.workers: list[Worker] = []
        self.threads = [threading.Thread(target=self._serve, args=(post,), daemon=True) for post in self.posts]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def events(self) -> Iterator[Event | None]:
        """What happens, as it happens, and None several times a second, until all is over."""
        while any(thread.is_alive() for thread in self.threads) or not self.happened.empty():
            try:
                yield self.happened.get(timeout=PAUSE)
            except queue.Empty:
                yield None

    def leave(self) -> None:
        """Have the workers checkpoint and leave; nobody takes another job."""
        self.leaving.set()
        with self.lock:
            for worker in self.workers:
                worker.leave()

    def kill(self) -> None:
        self.leaving.set()
        for worker in self.workers:
            worker.kill()

    def _serve(self, post: Post) -> None:
        while True:
            while post.takes(self._share()) and (job := self._next(post)):
                self._give(post, job)
            if not post.jobs:
                break
            self._hear(post)
        post.end()

    def _share(self) -> int:
        """How many jobs a slot may be at, so that no other has to go without."""
        with self.lock:
            left = len(self.waiting) + sum(len(post.jobs) for post in self.posts)
        return -(-left // len(self.posts))

    def _give(self, post: Post, job: Job) -> None:
        try:
            if post.is_spent:
                post.end()
            post.worker = post.worker or self._hire(post.slot)
        except Exception as error:  # a full disk, no more processes: this job's failure, not the crew's
            self._say(job, Answer("failed", f"{type(error).__name__}: {error}", died=True))
            return
        post.jobs[job.run.path] = job
        post.is_alone = job in self.alone
        self.happened.put(Event(job))
        post.worker.give(job.run)

    def _hear(self, post: Post) -> None:
        assert post.worker
        told = post.worker.answer(PAUSE)
        if isinstance(told, Answer):
            self._bury(post, told)
        elif told and (job := post.jobs.pop(told[0], None)):
            self._say(job, told[1])

    def _bury(self, post: Post, death: Answer) -> None:
        """A worker is gone: the only job at hand fails of it, and of several each gets another try, alone."""
        jobs = list(post.jobs.values())
        post.jobs.clear()
        post.end()
        if len(jobs) > 1 and not self.leaving.is_set():
            self.alone.update(jobs)
            death = Answer("again")
        for job in jobs:
            self._say(job, death)

    def _say(self, job: Job, answer: Answer) -> None:
        if answer.status in PUT_BACK:
            self._put_back(job)
            answer = Answer("busy")
        elif answer.died and self.leaving.is_set():
            answer = Answer("paused")
        self.happened.put(Event(job, answer))

    def _hire(self, slot: Slot) -> Worker:
        with self.lock:
            worker = Worker(slot)
            self.workers.append(worker)
            if self.leaving.is_set():
                worker.leave()
        return worker

    def _next(self, post: Post) -> Job | None:
        """The first job that can be trained; a post with nothing to do waits while all that are left are elsewhere."""
        while not self.leaving.is_set():
            with self.lock:
                fitting = [job for job in self.waiting if not post.jobs or job not in self.alone]
                if job := next((job for job in fitting if self._takes(job)), None):
                    return job
                if post.jobs or not self.waiting:
                    return None
            time.sleep(PAUSE)
        return None

    def _takes(self, job: Job) -> bool:
        turn = self._turn(job)
        if turn == "elsewhere":
            if job not in self.elsewhere:
                self.elsewhere.add(job)
                self.happened.put(Event(job, Answer("elsewhere")))
            return False
        self.waiting.remove(job)
        if turn == "over":
            self.happened.put(Event(job, Answer("over")))
        return turn == "train"

    def _turn(self, job: Job) -> Turn:
        try:
            return self.turn(job)
        except Exception as error:
            self.happened.put(Event(job, Answer("failed", f"{type(error).__name__}: {error}", died=True)))
            return "failed"

    def _put_back(self, job: Job) -> None:
        with self.lock:
            self.waiting.append(job)
