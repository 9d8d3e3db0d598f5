"""The process that trains: it takes run folders one after another and writes nothing but their records.

    python -m labkit.worker [--runtime JSON] [RUN ...]

Without folders it reads one a line from standard input, and trains until that is closed: then its driver is gone. It
answers each with a line of JSON, {"run": path, "status": ...}: a status of the record, or "busy" where another process
trains the run, or "reload" where its sources differ from those loaded here, so that a fresh worker has to take it.
SIGTERM, SIGINT, a closed input and a `stop` file let it checkpoint after the step at hand; such a run is paused.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch

from labkit.data import prepare
from labkit.spec import Mistake, ValidationError, explain
from labkit.tracking.record import FINISHED, Busy, Damaged, Run
from labkit.tracking.source import load
from labkit.train.loop import train
from labkit.train.run import RunSpec, Runtime

STOP_SECONDS = 1.0
"""How often a run looks for its `stop` file."""


class Worker:
    """Trains runs, all of them with the sources of the first."""

    def __init__(self, runtime: Runtime, answer: Callable[[dict[str, Any]], None]) -> None:
        self.runtime, self.answer = runtime, answer
        self.leaving = threading.Event()
        self.sources: dict[str, str] | None = None
        self.loaded = False

    def work(self, paths: Iterable[Path]) -> None:
        """Take run after run until told to leave, or until one needs another worker."""
        for path in paths:
            status = self.take(Run(path))
            self.answer({"run": str(path), **status})
            if status["status"] == "reload" or self.leaving.is_set():
                return

    def take(self, run: Run) -> dict[str, Any]:
        """Train one run, unless it is finished, busy, or not for this worker."""
        try:
            if not run.spec():
                return {"status": "failed", "error": f"{run.path}: no run is planned there"}
            with run.lock():
                record = run.record()
                if record["status"] in FINISHED:
                    return {"status": record["status"]}
                if self.sources not in (None, record.get("sources", {})):
                    return {"status": "reload"}
                return self.train(run, record)
        except Busy:
            return {"status": "busy"}
        except Damaged as damaged:
            return {"status": "failed", "error": str(damaged)}

    def train(self, run: Run, record: dict[str, Any]) -> dict[str, Any]:
        """Train a run that is locked; whatever goes wrong in it is put on its record."""
        with output_to(run.console_log):
            try:
                self.load(run, record.get("sources", {}))
                spec = RunSpec.from_json(run.spec())
                store = prepare(spec.data, spec.tokenizer, Path(record["base"]), also=spec.evaluation.also)
                return {"status": train(run, spec, self.runtime, store, self.should_stop(run))}
            except (Exception, SystemExit) as error:
                traceback.print_exc()
                if torch.cuda.is_initialized():  # a CUDA error leaves a context that nothing runs in any more
                    self.leaving.set()
                run.update(status="failed", error=in_a_line(error), ended=time.time())
                return {"status": "failed", "error": in_a_line(error)}
            finally:
                run.clear_stop()

    def load(self, run: Run, sources: dict[str, str]) -> None:
        """Import the user's own files as they were captured, so that the components they define are known."""
        if self.loaded:
            return
        self.sources = sources
        for relative in sources:
            load(run.source / relative, run.source)
        self.loaded = True

    def should_stop(self, run: Run) -> Callable[[], bool]:
        """What training asks between two steps."""
        looked, found = time.monotonic() - STOP_SECONDS, False

        def stop() -> bool:
            nonlocal looked, found
            if (now := time.monotonic()) - looked >= STOP_SECONDS:
                looked, found = now, run.stop_requested
            return found or self.leaving.is_set()

        return stop


@contextmanager
def output_to(log: Path) -> Generator[None]:
    """Send what Python code prints to a run's log."""
    with log.open("a", buffering=1) as file, redirect_stdout(file), redirect_stderr(file):
        yield


def in_a_line(error: BaseException) -> str:
    """What went wrong, for the record."""
    if isinstance(error, ValidationError):
        return explain(error, RunSpec).replace("\n", "; ")
    first = str(error).partition("\n")[0]
    if isinstance(error, torch.OutOfMemoryError):
        return f"out of memory: give --micro-batch, or --activation-checkpointing. {first}"
    return first if isinstance(error, Mistake) else f"{type(error).__name__}: {first}"


class Input:
    """Run folders from standard input, a line each; its end sets `leaving`."""

    def __init__(self, leaving: threading.Event) -> None:
        self.leaving = leaving
        self.paths: SimpleQueue[Path | None] = SimpleQueue()
        threading.Thread(target=self.read, daemon=True).start()

    def __iter__(self) -> Iterator[Path]:
        return iter(self.paths.get, None)  # type: ignore[return-value]

    def read(self) -> None:
        rest = b""
        while chunk := os.read(sys.stdin.fileno(), 1 << 16):
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
    parser.add_argument("runs", nargs="*", type=Path, help="run folders; none: one a line from standard input")
    given = parser.parse_args(arguments)
    try:
        runtime = Runtime.from_json(json.loads(given.runtime))
    except ValidationError as error:
        parser.error(explain(error, Runtime))
    output = sys.stdout

    def answer(line: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):
            print(json.dumps(line), file=output, flush=True)

    worker = Worker(runtime, answer)
    paths = Input(worker.leaving) if not given.runs else given.runs
    leave = worker.leaving.set if given.runs else paths.end
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: leave())
    worker.work(paths)
    return 0


if __name__ == "__main__":
    sys.exit(main())
