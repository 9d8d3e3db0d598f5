"""Data prepared in a process of its own, so that Ctrl-C ends it at once, whatever library is at work in it."""

import multiprocessing
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from labkit.data import Store, prepare
from labkit.spec import Mistake
from labkit.study.loading import line_of, said, short
from labkit.tracking.progress import Advance, Progress
from labkit.train.run import RunSpec

TOLD = 0.1
"""Seconds between two words about how far it is."""


def prepare_apart(spec: RunSpec, base: Path, progress: Progress) -> Store:
    """`labkit.data.prepare` in a child that is killed when this process is interrupted. Raises Mistake.

    A killed one leaves nothing that is taken for a store. The child is forked: it knows the user's own corpora.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_prepare, args=(spec, base, there), daemon=True)
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: nothing here holds a lock now
        child.start()
    there.close()
    try:
        return Store(*_followed(here, progress))
    finally:
        child.kill()
        child.join()


def _followed(pipe: Any, progress: Progress) -> tuple[Path, dict[str, Path]]:
    """Show what the child says until it has the store: this gives its path, and those of further sets by name."""
    shown: list[tuple[AbstractContextManager[Advance], Advance]] = []
    try:
        while True:
            kind, *told = pipe.recv()
            if kind == "begin":
                task = progress.task(*told)
                shown.append((task, task.__enter__()))
            elif kind == "advance":
                shown[-1][1](*told)
            elif kind == "end":
                shown.pop()[0].__exit__(None, None, None)
            elif kind == "store":
                return told[0], told[1]
            else:
                raise told[0]
    except EOFError:
        raise Mistake("data: the process that prepared it was killed (out of memory?); run the command again") from None
    finally:
        for task, _ in reversed(shown):
            task.__exit__(None, None, None)


def _prepare(spec: RunSpec, base: Path, pipe: Connection) -> None:
    os.setsid()  # Ctrl-C is for the parent
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout = sys.stderr
    try:
        store = prepare(spec.data, spec.tokenizer, base, _Told(pipe), spec.evaluation.also)
        pipe.send(("store", store.path, {name: whole.path for name, whole in store.also.items()}))
    except Mistake as error:
        pipe.send(("failed", Mistake(str(error))))
    except OSError as error:
        pipe.send(("failed", error))
    except BaseException as error:
        pipe.send(("failed", _mistake(error, base)))


def _mistake(error: BaseException, base: Path) -> Mistake:
    """An error of a library or of a user's own component in one line; its traceback comes along for --debug."""
    nowhere = base / "-"
    line = line_of(error, nowhere)
    mistake = Mistake(f"{line if line != short(nowhere) else 'data'}: {said(error)}")
    mistake.add_note("".join(traceback.format_exception(error)))
    return mistake


class _Told(Progress):
    """Progress that is told to another process."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe

    @contextmanager
    def task(self, description: str, total: float | None = None, unit: str = "") -> Generator[Advance]:
        told, waiting = time.monotonic(), 0.0

        def advance(amount: float) -> None:
            nonlocal told, waiting
            waiting += amount
            if (now := time.monotonic()) - told >= TOLD:
                self.pipe.send(("advance", waiting))
                told, waiting = now, 0.0

        self.pipe.send(("begin", description, total, unit))
        try:
            yield advance
        finally:
            if waiting:
                self.pipe.send(("advance", waiting))
            self.pipe.send(("end",))
