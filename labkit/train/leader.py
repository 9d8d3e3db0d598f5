"""Number 0 of a group: the process that the driver speaks to, which starts the others and tells them what to do.

It writes a line of JSON to the standard input of each: {"run": path, "checkpoint": step or null}, {"step": number},
{"agree": true}, {"over": true}. A follower answers the first with {"ready": how, "holds": text}, the third with
{"holds": text, "keeps": text}, and says {"failed": why} before it dies of an error; when its input ends it leaves at
once. So whether to stop, to evaluate or to save is decided here alone, where the others wait for the next line, and
when one of them is gone a thread that listens to it says so, whatever this process waits for.
"""

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import torch

from labkit.spec import Mistake
from labkit.train import started, wires
from labkit.train.distributed import Holds, Ranks, dist, opened
from labkit.train.failing import death
from labkit.train.run import Runtime

MEETING = 300.0
"""Seconds until a follower that says nothing is given up: what number 0 does meanwhile it has done as well by then."""

LOOK = 0.02
"""Seconds between two looks for who has come."""

LEAVING = 5.0
"""Seconds in which a follower has to be gone that was told to leave."""

SAID_AT_MOST = 4000


class Follower:
    """A process of the group, seen from number 0."""

    def __init__(self, runtime: Runtime, rank: int, port: int) -> None:
        self.rank, self.failure = rank, ""
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        here = runtime.patched({"device": f"cuda:{rank}"}) if is_on_gpus(runtime) else runtime
        self.process = started.worker(here, "--rank", str(rank), "--port", str(port), errors=self.errors)
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def tell(self, **line: Any) -> None:
        with suppress(BrokenPipeError, ValueError):  # it is gone, as whoever listens to it says
            self.stdin.write(json.dumps(line) + "\n")
            self.stdin.flush()

    def listen(self, hear: Callable[[int, dict[str, Any]], None]) -> str:
        """Hear what it says until it is gone; gives why."""
        for line in self.stdout:
            told = wires.told(line)
            self.failure = told.get("failed", self.failure)
            if "holds" in told:
                hear(self.rank, told)
        code = self.process.wait()
        return f"rank {self.rank}: {self.failure}" if self.failure else death(f"rank {self.rank}", code, self._said())

    def leave(self) -> None:
        """Have it leave."""
        with suppress(BrokenPipeError):
            self.stdin.close()

    def end(self) -> None:
        """Wait until it has left, or put an end to it; whoever listens to it is done then."""
        try:
            self.process.wait(LEAVING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """Close what was open to it."""
        self.stdout.close()
        self.errors.close()

    def _said(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-SAID_AT_MOST:].strip()


def is_on_gpus(runtime: Runtime) -> bool:
    """Whether each process takes a GPU, by its number."""
    return runtime.device != "cpu" and (runtime.device != "auto" or torch.cuda.is_available())


class Leader(Ranks):
    """Number 0. `lost` is told why a follower is gone, in another thread: nothing that is begun comes to an end now."""

    def __init__(self, runtime: Runtime, lost: Callable[[str], None]) -> None:
        store, port = opened(runtime.data_parallel)
        super().__init__(0, runtime.data_parallel, store, exact=runtime.mode == "exact")
        self.lost, self.is_closing = lost, threading.Event()
        self.told: SimpleQueue[tuple[int, dict[str, Any]]] = SimpleQueue()
        self.followers = [Follower(runtime, rank, port) for rank in range(1, self.size)]
        self.listeners = [threading.Thread(target=self._listen, args=(each,), daemon=True) for each in self.followers]
        for listener in self.listeners:
            listener.start()

    def begin(self, run: Path, step: int | None, device: torch.device) -> None:
        self.is_amid = True
        self._tell(run=str(run), checkpoint=step)
        self.meet(device)

    def expect(self) -> None:
        until = time.monotonic() + MEETING
        while absent := [each.rank for each in self.followers if not self.store.check([self.place(each.rank)])]:
            if time.monotonic() > until:
                raise self._without(absent)
            time.sleep(LOOK)

    def ready(self, how: str, holds: Holds) -> None:
        told, ours = self._heard(), holds()
        for rank, other in told:
            if other["ready"] != how:  # NCCL wants a sum captured by all or by none
                said = f"rank {rank} executes its steps {other['ready']}, and rank 0 {how}"
                raise Mistake(f"--data-parallel {self.size}: {said}; write --capture off")
            if other["holds"] != ours:
                said = f"rank {rank} built another model than rank 0 of the same spec"
                remedy = "have a component draw what it keeps from torch's own generator, and follow no set's order"
                raise Mistake(f"--data-parallel {self.size}: {said}; {remedy}")

    def go(self, step: int) -> None:
        self._tell(step=step)

    def agree(self, step: int, holds: Holds, keeps: Holds) -> bool:
        self._tell(agree=True)
        ours, kept = holds(), keeps()
        told = self._heard()
        for rank, other in told:
            if other["holds"] != ours:
                said = f"after {step} steps rank {rank} has other weights than rank 0"
                why = "something moves them by more than the gradient, such as an optimizer's random numbers"
                raise Mistake(f"--data-parallel {self.size}: {said}: {why}; leave the option out")
        return all(other["keeps"] == kept for _, other in told)

    def end(self) -> None:
        self._tell(over=True)
        self.is_amid = False

    def close(self) -> None:
        """Have all leave, and leave as well where the group is NCCL's: there is no other after it."""
        self.is_closing.set()
        for follower in self.followers:
            follower.leave()
        for follower, listener in zip(self.followers, self.listeners, strict=True):
            follower.end()
            listener.join()
            follower.close()
        if self.has_met and dist.get_backend() == "gloo":
            dist.destroy_process_group()
        elif self.has_met:
            os._exit(0)  # NCCL would take down what it made together with the others, who are gone

    def _tell(self, **line: Any) -> None:
        for follower in self.followers:
            follower.tell(**line)

    def _heard(self) -> list[tuple[int, dict[str, Any]]]:
        """What each of the others answers, in the order of their numbers."""
        told: dict[int, dict[str, Any]] = {}
        until = time.monotonic() + MEETING
        while absent := [each.rank for each in self.followers if each.rank not in told]:
            try:
                rank, line = self.told.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                raise self._without(absent) from None
            told[rank] = line
        return sorted(told.items())

    def _without(self, absent: list[int]) -> Mistake:
        """What is said of those that are alive and have not come."""
        who = f"ranks {', '.join(map(str, absent))} have" if absent[1:] else f"rank {absent[0]} has"
        logs = f"what is printed there is in console-{absent[0]}.log, beside this run's own"
        remedy = "see what your own files wait for in it, or leave the option out"
        return Mistake(f"--data-parallel {self.size}: {who} not come for {MEETING:g} s; {logs}: {remedy}")

    def _listen(self, follower: Follower) -> None:
        why = follower.listen(lambda rank, line: self.told.put((rank, line)))
        if not self.is_closing.is_set():
            self.lost(why)
