"""A pool of workers that take one run at a time, as there is one to be taken."""

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.study.crew import PAUSE
from labkit.study.executors import Answer, Slot, Worker
from labkit.tracking.record import Run


@dataclass(frozen=True)
class Ended:
    """A run that a worker is done with."""

    work: Any
    """What was given with the run."""
    answer: Answer


class Pool:
    """Give it runs while `idle`; look at `ended` in the same thread; `leave` and `kill` end it early."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.given: queue.SimpleQueue[tuple[Any, Run] | None] = queue.SimpleQueue()
        self.happened: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self.leaving = threading.Event()
        self.lock = threading.Lock()
        self.workers: list[Worker] = []
        self.busy = 0
        self.threads = [threading.Thread(target=self._serve, args=(slot,), daemon=True) for slot in slots]
        for thread in self.threads:
            thread.start()

    @property
    def idle(self) -> bool:
        """Whether a worker waits for a run."""
        return self.busy < len(self.threads) and not self.leaving.is_set()

    def give(self, work: Any, run: Run) -> None:
        self.busy += 1
        self.given.put((work, run))

    def ended(self, timeout: float) -> Ended | None:
        """The next run that is over; None where none is after so many seconds."""
        try:
            found = self.happened.get(timeout=timeout)
        except queue.Empty:
            return None
        self.busy -= 1
        return found

    def leave(self) -> None:
        """Have the workers checkpoint and leave."""
        self.leaving.set()
        with self.lock:
            for worker in self.workers:
                worker.leave()

    def kill(self) -> None:
        self.leaving.set()
        for worker in self.workers:
            worker.kill()

    def close(self) -> None:
        """Let everybody go home, and wait until they have."""
        for _ in self.threads:
            self.given.put(None)
        for thread in self.threads:
            thread.join()

    def _serve(self, slot: Slot) -> None:
        worker = None
        while (given := self.given.get()) is not None:
            work, run = given
            try:
                worker, answer = self._trained(slot, worker, run)
            except Exception as error:  # a full disk, no more processes: this run's failure, not the pool's
                answer = Answer("failed", f"{type(error).__name__}: {error}", died=True)
            if answer.died and self.leaving.is_set():
                answer = Answer("paused")
            self.happened.put(Ended(work, answer))
        if worker is not None:
            worker.end()

    def _trained(self, slot: Slot, worker: Worker | None, run: Run) -> tuple[Worker, Answer]:
        """The worker that trained a run, and its answer; one that has other sources loaded leaves for another."""
        while True:
            if worker is not None and not (worker.is_alive and worker.room):
                worker.end()
                worker = None
            worker = worker or self._hire(slot)
            worker.give(run)
            while (told := worker.answer(PAUSE)) is None:
                pass
            answer = told if isinstance(told, Answer) else told[1]
            if answer.status not in ("reload", "again"):
                return worker, answer
            if self.leaving.is_set():
                return worker, Answer("paused")

    def _hire(self, slot: Slot) -> Worker:
        with self.lock:
            worker = Worker(slot)
            self.workers.append(worker)
            if self.leaving.is_set():
                worker.leave()
        return worker
