"""A process of a group that makes its share of every step, as number 0 says: `leader` has the lines that it reads.

It writes nothing but what it prints: into a file of its own in the run's folder.
"""

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

import torch

from labkit.data import prepare
from labkit.spec import Mistake
from labkit.tracking.record import Run
from labkit.tracking.source import load
from labkit.train import awake, wires
from labkit.train.device import settings
from labkit.train.distributed import Ranks, found
from labkit.train.failing import in_a_line
from labkit.train.loop import Maker
from labkit.train.run import RunSpec, Runtime

Line = dict[str, Any]


class Orders:
    """The lines of standard input; when it ends, number 0 is gone, and so is this process, whatever it waits for."""

    def __init__(self) -> None:
        self.lines: SimpleQueue[Line] = SimpleQueue()
        self.descriptor = wires.taken()
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> Line:
        return self.lines.get()

    def _read(self) -> None:
        with os.fdopen(self.descriptor) as lines:
            for line in lines:
                self.lines.put(json.loads(line))
        os._exit(0)


class Following:
    """Number `rank` of the group."""

    def __init__(self, runtime: Runtime, rank: int, port: int, say: Callable[[Line], None]) -> None:
        self.runtime, self.orders, self.say = runtime, Orders(), say
        size = runtime.data_parallel
        self.group = Ranks(rank, size, found(port, size), exact=runtime.mode == "exact")
        self.has_loaded = False

    def follow(self) -> NoReturn:
        """Take part in run after run."""
        awake.finish()
        while True:
            line = self.orders.next()
            run = Run(Path(line["run"]))
            file = run.console_of(self.group.rank)
            with file.open("a", buffering=1) as log, redirect_stdout(log), redirect_stderr(log), failing(self.say):
                self.load(run)
                with settings(self.runtime) as device, failing(self.say):
                    self.make_steps(run, line["checkpoint"], device)

    def load(self, run: Run) -> None:
        """Import the user's own files, once: a run of others comes to another group."""
        if not self.has_loaded:
            for relative in run.record().get("sources", {}):
                load(run.source / relative, run.source)
        self.has_loaded = True

    def make_steps(self, run: Run, step: int | None, device: torch.device) -> None:
        """From the checkpoint after so many steps on, or from the beginning."""
        spec = RunSpec.from_json(run.spec())
        store = prepare(spec.data, spec.tokenizer, Path(run.record()["base"]), also=spec.evaluation.also)
        maker = Maker(run, spec, self.runtime, store, device=device, group=self.group)
        self.group.meet(device)
        maker.step.prepare()
        if step is not None:
            checkpoint = maker.checkpoints.at(step)
            if checkpoint is None:
                raise Mistake(f"{run.checkpoints}: the checkpoint after step {step} cannot be read")
            maker.resume(checkpoint)
        self.say({"ready": maker.step.made.how, "holds": maker.holds_at_first()})
        while "over" not in (line := self.orders.next()):
            if "agree" in line:
                self.say({"holds": maker.holds(), "keeps": maker.keeps()})
                continue
            assert line["step"] == maker.done
            maker.make_step()
            for _ in maker.step.readings():  # are those of number 0; where it has gone far ahead this waits
                pass


def follow(runtime: Runtime, rank: int, port: int) -> NoReturn:
    """Follow number 0, whose store is at a port, until one of the two is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # number 0 hears of it, and makes the step at hand with all others
    output = sys.stdout

    def say(line: Line) -> None:
        print(json.dumps(line), file=output, flush=True)

    with redirect_stdout(sys.stderr), failing(say):
        Following(runtime, rank, port, say).follow()


@contextmanager
def failing(say: Callable[[Line], None]) -> Generator[None]:
    """What goes wrong inside is the end at once: whatever is under way on the device may wait for others."""
    try:
        yield
    except BaseException as error:
        traceback.print_exc()
        say({"failed": in_a_line(error)})
        os._exit(1)
