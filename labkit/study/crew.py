"""The crew: one worker a slot, taking jobs from one queue until it is empty."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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


class Crew:
    """Trains jobs on slots. Iterate over `events` in the main thread; `leave` and `kill` end it early."""

    def __init__(self, slots: Sequence[Slot], jobs: Sequence[Job], turn: Callable[[Job], Turn]) -> None:
        self.turn = turn
        self.waiting = list(jobs)
        self.elsewhere: set[Job] = set()
        self.lock = threading.Lock()
        self.happened: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.leaving = threading.Event()
        self.workers: list[Worker] = []
        self.threads = [threading.Thread(target=self._serve, args=(slot,), daemon=True) for slot in slots[: len(jobs)]]

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

    def _serve(self, slot: Slot) -> None:
        worker = None
        while (job := self._next()) is not None:
            try:
                if worker is not None and not worker.alive:
                    worker.end()
                    worker = None
                worker = worker or self._hire(slot)
                self.happened.put(Event(job))
                answer = worker.train(job.run)
            except Exception as error:  # a full disk, no more processes: this job's failure, not the crew's
                answer = Answer("failed", f"{type(error).__name__}: {error}", died=True)
            if answer.status == "busy":
                self._put_back(job)
            elif answer.died and self.leaving.is_set():
                answer = Answer("paused")
            self.happened.put(Event(job, answer))
        if worker is not None:
            worker.end()

    def _hire(self, slot: Slot) -> Worker:
        with self.lock:
            worker = Worker(slot)
            self.workers.append(worker)
            if self.leaving.is_set():
                worker.leave()
        return worker

    def _next(self) -> Job | None:
        """The first job that can be trained; waits while all that are left are in other hands."""
        while not self.leaving.is_set():
            with self.lock:
                if job := next((job for job in list(self.waiting) if self._takes(job)), None):
                    return job
                if not self.waiting:
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
