"""The process that trains: it takes run folders, one after another or several at once, and writes only their records.

    python -m labkit.worker [--runtime JSON] [RUN ...]

Without folders it reads one a line from standard input, and trains until that is closed: then its driver is gone. It
answers each with a line of JSON, {"run": path, "status": ...}: a status of the record, or "busy" where another process
trains the run, "reload" where its sources differ from those loaded here, "again" where the process has to leave for
another run's sake: so that a fresh worker has to take it. A line {"room": n} says that it trains up to n runs at once.
SIGTERM, SIGINT, a closed input and a `stop` file let it checkpoint after the step at hand; such a run is paused.
Where several processes share the batch of a run (the runtime's `data_parallel`) it starts the others, --rank 1, 2, ….
"""

import argparse
import gc
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TextIO

import torch

from labkit.train import awake, wires

if __name__ == "__main__":
    awake.begin(sys.argv)

from labkit.data import prepare
from labkit.faults import explain
from labkit.spec import Mistake, ValidationError
from labkit.tracking.atomic import Damaged
from labkit.tracking.record import FINISHED, Busy, Run
from labkit.tracking.source import load
from labkit.train.device import select
from labkit.train.distributed import ALONE, Group
from labkit.train.failing import in_a_line
from labkit.train.follower import follow
from labkit.train.lanes import Lane, lane
from labkit.train.leader import Leader
from labkit.train.loop import Company, training
from labkit.train.room import Room, room_for
from labkit.train.run import MOST_SIDE_BY_SIDE, RunSpec, Runtime
from labkit.train.together import Member, Together
from labkit.train.turns import Turns, each_in

STOP_SECONDS = 0.1
"""How often a run looks for its `stop` file: a short one is over in a second."""

Told = dict[str, Any]
"""What is answered of a run: its status, and why it failed."""


class Trained:
    """A run at hand, the lane that it trains in, and who is beside it."""

    def __init__(self, path: Path, lane_: Lane, leaving: threading.Event) -> None:
        self.path, self.run, self.lane, self.company, self.leaving = path, Run(path), lane_, Company(), leaving
        self.looked, self.is_stopped = time.monotonic() - STOP_SECONDS, False

    def is_told(self) -> bool:
        """Whether it has to leave; looks for its `stop` file now and then."""
        if (now := time.monotonic()) - self.looked >= STOP_SECONDS:
            self.looked, self.is_stopped = now, self.run.stop_requested
        return self.is_stopped or self.leaving.is_set()


class Worker:
    """Trains runs, all of them with the sources of the first."""

    def __init__(self, runtime: Runtime, answer: Callable[[Told], None]) -> None:
        self.runtime, self.answer = runtime, answer
        self.leaving = threading.Event()
        self.sources: dict[str, str] | None = None
        self.loaded = False
        self.put_off: deque[Path] = deque()
        """Runs that had no room in memory beside others."""
        self.together: Together[Trained, Told] = Together(Room())
        self.told_room = 1
        self.group: Group = ALONE
        if runtime.data_parallel > 1:
            self.group = Leader(runtime, self.lose)

    def work(self, paths: "Paths") -> None:
        """Train what is given until told to leave, or until a run needs another worker."""
        awake.finish()
        self.together = Together(self._room())
        while True:
            self._say_room()
            while self._has_room() and (path := self._next(paths)):
                self._begin(path)
            if not self.together.members:
                break
            if over := self.together.turn():
                self._end(over[0].key, over[1])
        self.group.close()

    def lose(self, why: str) -> None:
        """One of the group is gone, in which every other waits for it: so is this process, and the run has failed."""
        try:
            self._close()
            print(why, file=sys.__stderr__, flush=True)
            for member in self.together.members if self.group.is_amid else ():
                self.answer({"run": str(member.key.path), **lost(member.key.run, why)})
        finally:  # also where the disk is full: nobody but the driver, which sees it end, could say so any more
            os._exit(1)

    def _room(self) -> Room:
        """Where the device is not there, the first run says so."""
        if self.group.size > 1:
            return Room()
        try:
            return room_for(self.runtime.side_by_side, select(self.runtime.device))
        except Mistake:
            return Room()

    def _say_room(self) -> None:
        """Let the driver know when it is another."""
        if self.told_room and (wanted := self.together.room.wanted) != self.told_room:
            self.told_room = wanted
            self.answer({"room": wanted})

    def _close(self) -> None:
        """Take no more runs."""
        self.told_room = 0
        self.answer({"room": 0})

    def _has_room(self) -> bool:
        free = len(self.together) < self.together.room.wanted
        return free and self.told_room > 0 and not self.leaving.is_set()

    def _next(self, paths: "Paths") -> Path | None:
        """The next run; waits for it where there is nothing else to do."""
        return self.put_off.popleft() if self.put_off else paths.next(wait=not self.together.members)

    def _begin(self, path: Path) -> None:
        trained = Trained(path, self._free_lane(), self.leaving)
        member = Member(trained, self.take(trained), trained.is_told)
        self.together.join(member)
        self._count()

    def _free_lane(self) -> Lane:
        with suppress(Mistake):
            device = select(self.runtime.device)
            used = {id(member.key.lane) for member in self.together.members}
            free = (lane(device, index) for index in range(MOST_SIDE_BY_SIDE))
            return next(each for each in free if id(each) not in used)
        return Lane()

    def _count(self) -> None:
        for member in self.together.members:
            member.key.company.is_of(min(len(self.together), self.together.room.at_once))

    def _end(self, trained: Trained, told: Told) -> None:
        self._count()
        if told["status"] == "put off":
            self.put_off.append(trained.path)
            self.together.room.shrink(len(self.together))
            return
        is_lost = told["status"] == "failed" and (self.group.is_amid or is_broken())
        if is_lost or told["status"] == "reload":
            self._close()
        self.answer({"run": str(trained.path), **told})
        if is_lost:
            self._give_back()

    def _give_back(self) -> None:
        """A CUDA error leaves a context that nothing runs in any more: not even a checkpoint is written."""
        for member in self.together.members:
            self.answer({"run": str(member.key.path), "status": "again"})
        self.together.members.clear()

    def take(self, trained: Trained) -> Turns[Told]:
        """Train one run, unless it is finished, busy, or not for this worker."""
        run = trained.run
        try:
            if not run.spec():
                return {"status": "failed", "error": f"{run.path}: no run is planned there"}
            with run.lock():
                return (yield from self.take_locked(trained))
        except Busy:
            return {"status": "busy"}
        except (Damaged, OSError) as error:  # where nothing can be put on record
            return {"status": "failed", "error": in_a_line(error)}

    def take_locked(self, trained: Trained) -> Turns[Told]:
        run, record = trained.run, trained.run.record()
        if record["status"] in FINISHED:
            return {"status": record["status"]}
        if self.sources not in (None, record.get("sources", {})):
            return {"status": "reload"}
        with run.console_log.open("a", buffering=1) as log:
            return (yield from each_in(self.train(trained, record), lambda: in_place(log, trained.lane)))

    def train(self, trained: Trained, record: dict[str, Any]) -> Turns[Told]:
        """Train a run that is locked; whatever goes wrong in it is put on its record."""
        run = trained.run
        try:
            self.load(run, record.get("sources", {}))
            spec = RunSpec.from_json(run.spec())
            store = prepare(spec.data, spec.tokenizer, Path(record["base"]), also=spec.evaluation.also)
            if record.get("sampled"):
                store = store.sampled(record["sampled"])
            status = yield from training(
                run, spec, self.runtime, store, trained.is_told, company=trained.company, group=self.group
            )
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            if isinstance(error, torch.OutOfMemoryError) and len(self.together) > 1:
                return {"status": "put off"}
            run.update(status="failed", error=in_a_line(error), ended=time.time())
            return {"status": "failed", "error": in_a_line(error)}
        finally:
            run.clear_stop()
        return {"status": status}

    def load(self, run: Run, sources: dict[str, str]) -> None:
        """Import the user's own files as they were captured, so that the components they define are known."""
        if self.loaded:
            return
        self.sources = sources
        for relative in sources:
            load(run.source / relative, run.source)
        self.loaded = True


def lost(run: Run, why: str) -> Told:
    """Put on record that a run has failed, unless it was at its end already."""
    if (status := run.record()["status"]) in FINISHED:
        return {"status": status}
    with run.console_log.open("a") as log:
        print(why, *(f"what was printed there is in {other.name}" for other in run.other_consoles), sep="\n", file=log)
    run.update(status="failed", error=why, ended=time.time())
    return {"status": "failed", "error": why}


def is_broken() -> bool:
    """Whether nothing runs on the GPU any more."""
    try:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


@contextmanager
def in_place(log: TextIO, lane_: Lane) -> Generator[None]:
    """What Python code prints inside goes to a run's log, and what it computes into the run's lane."""
    with redirect_stdout(log), redirect_stderr(log), lane_.turn():
        yield


class Paths:
    """Run folders, all of them given at the start."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.rest = deque(paths)

    def next(self, *, wait: bool) -> Path | None:
        """The next one; none where there is none yet, for which it may wait, or where there will be none."""
        return self.rest.popleft() if self.rest else None


class Input(Paths):
    """Run folders from standard input, a line each; its end sets `leaving`."""

    def __init__(self, leaving: threading.Event) -> None:
        self.leaving = leaving
        self.paths: SimpleQueue[Path | None] = SimpleQueue()
        self.descriptor = wires.taken()
        threading.Thread(target=self.read, daemon=True).start()

    def next(self, *, wait: bool) -> Path | None:
        try:
            return self.paths.get(block=wait)
        except Empty:
            return None

    def read(self) -> None:
        rest = b""
        while chunk := os.read(self.descriptor, 1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in filter(None, lines):
                self.paths.put(Path(os.fsdecode(line)))
        self.end()

    def end(self) -> None:
        self.leaving.set()
        self.paths.put(None)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m labkit.worker", description="Train run folders.")
    parser.add_argument("--runtime", default="{}", help="the runtime's fields, as JSON")
    parser.add_argument("--rank", type=int, default=0, help="of those that share a batch; 0 starts the others")
    parser.add_argument("--port", type=int, default=0, help="where the others find each other")
    parser.add_argument("runs", nargs="*", type=Path, help="run folders; none: one a line from standard input")
    given = parser.parse_args(arguments)
    try:
        runtime = Runtime.from_json(json.loads(given.runtime))
    except ValidationError as error:
        parser.error(explain(error, Runtime))
    if given.rank:
        follow(runtime, given.rank, given.port)
    output = sys.stdout

    def answer(line: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):
            print(json.dumps(line), file=output, flush=True)

    worker = Worker(runtime, answer)
    paths = Paths(given.runs) if given.runs else Input(worker.leaving)
    leave = paths.end if isinstance(paths, Input) else worker.leaving.set
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: leave())
    gc.freeze()  # what is imported stays, and need not be looked through after every run
    worker.work(paths)
    gc.unfreeze()
    return 0


if __name__ == "__main__":
    sys.stdout = wires.kept()
    sys.exit(main())
