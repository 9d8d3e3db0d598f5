"""Where workers live: processes of this machine, one a GPU, or one single-threaded one a CPU core; where processes
share the batch of a run, the first of them, with as many GPUs or cores as they are.

A worker reads run folders from its standard input and answers each with a line of JSON. It trains one at a time until
it says that it has room for more. It sits in a session of its
own, so that Ctrl-C reaches only the driver; when its standard input closes it checkpoints and leaves.
"""

import os
import signal
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

import torch

from labkit.report.formats import plural
from labkit.spec import Mistake
from labkit.tracking.record import Run
from labkit.train import started, wires
from labkit.train.failing import death
from labkit.train.run import Runtime

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
SAID_AT_MOST = 4000


@dataclass(frozen=True)
class Slot:
    """A place for one worker."""

    runtime: Runtime
    environment: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Answer:
    """How a run ended, as its worker says, or as its death says for it."""

    status: str
    error: str = ""
    died: bool = False
    """Whether the worker is gone, so that nobody has written the run's end into its record."""
    said: str = ""
    """What the process itself wrote before it died."""


def slots(runtime: Runtime, workers: int = 0) -> list[Slot]:
    """The places that a runtime has on this machine, at most `workers` of them (0: all).

    Raises Mistake for a device that is not there.
    """
    kind, _, index = runtime.device.partition(":")
    gpus = 0 if kind == "cpu" else torch.cuda.device_count()  # asks the driver library; touches no GPU
    if kind == "cuda" and gpus == 0:
        built = "" if torch.version.cuda else "; this torch is built without CUDA"
        remedy = "write --device cpu, or see `labkit doctor`"
        raise Mistake(f"--device {runtime.device}: there is no CUDA device here{built}; {remedy}")
    if index and int(index) >= gpus:
        raise Mistake(f"--device {runtime.device}: there are {gpus} CUDA devices, counted from 0")
    _check_ranks(runtime, gpus)
    places = _cuda(runtime, [int(index)] if index else range(gpus)) if gpus else _cpu(runtime, workers)
    return places[: workers or None]


def _check_ranks(runtime: Runtime, gpus: int) -> None:
    """Raise Mistake where not each of the processes that share a batch has a GPU of its own."""
    size, device = runtime.data_parallel, runtime.device
    if size > 1 and ":" in device:
        raise Mistake(f"--data-parallel {size}: --device {device} is one GPU; write --device cuda")
    if gpus and size > gpus:
        have = "is one CUDA device" if gpus == 1 else f"are {gpus} CUDA devices"
        remedy = "leave it out" if gpus == 1 else f"write --data-parallel {gpus}"
        raise Mistake(f"--data-parallel {size}: there {have} here; {remedy}")


def crew_of(slots: Sequence[Slot]) -> str:
    """``2 cuda workers``, with how many processes each is where it is several."""
    runtime = slots[0].runtime
    workers = plural(len(slots), f"{'cpu' if runtime.device == 'cpu' else 'cuda'} worker")
    return f"{workers} of {runtime.data_parallel} processes" if runtime.data_parallel > 1 else workers


def _cuda(runtime: Runtime, indices: Sequence[int]) -> list[Slot]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = visible.split(",") if visible else [str(index) for index in range(max(indices) + 1)]
    size = runtime.data_parallel
    groups = [[names[index] for index in indices[at * size :][:size]] for at in range(len(indices) // size)]
    return [Slot(runtime.patched({"device": "cuda"}), {"CUDA_VISIBLE_DEVICES": ",".join(group)}) for group in groups]


def _cpu(runtime: Runtime, workers: int) -> list[Slot]:
    environment = {**dict.fromkeys(THREADS, "1"), "CUDA_VISIBLE_DEVICES": ""}
    most = max(1, len(os.sched_getaffinity(0)) // runtime.data_parallel)
    return [Slot(runtime.patched({"device": "cpu"}), environment)] * (workers or most)


class Worker:
    """One process that trains run after run, or several at once."""

    def __init__(self, slot: Slot) -> None:
        asked = slot.runtime.side_by_side
        self.room = 1 if asked == "auto" else asked
        """How many runs it takes at once; it may say another number, 0 when it is about to leave."""
        self.told: SimpleQueue[tuple[Path, Answer] | Answer] = SimpleQueue()
        self._start(slot)
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def give(self, run: Run) -> None:
        """Have one more run trained."""
        with suppress(BrokenPipeError, ValueError):  # it is dead, or has been asked to leave: its answer says so
            self.stdin.write(f"{run.path}\n")
            self.stdin.flush()

    def answer(self, seconds: float) -> tuple[Path, Answer] | Answer | None:
        """What it has said of a run, or its death, after which it says nothing more; None after so many seconds."""
        try:
            return self.told.get(timeout=seconds)
        except Empty:
            return None

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def leave(self) -> None:
        """Ask it to checkpoint and leave."""
        with suppress(BrokenPipeError):
            self.stdin.close()

    def end(self) -> None:
        """Have it leave, wait until it has, and close what was open to it."""
        self.leave()
        self.process.wait()
        self.listener.join()
        self.stdout.close()
        self.errors.close()

    def kill(self) -> None:
        if self.is_alive:
            os.killpg(self.process.pid, signal.SIGKILL)

    def _start(self, slot: Slot) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = started.worker(
            slot.runtime, errors=self.errors, environment=slot.environment, start_new_session=True
        )
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def _listen(self) -> None:
        for line in self.stdout:
            told = wires.told(line)
            self.room = told.get("room", self.room)
            if "run" in told:
                self.told.put((Path(told["run"]), Answer(told["status"], told.get("error") or "")))
        code, said = self.process.wait(), self._said()
        self.told.put(Answer("failed", death("the worker", code, said), died=True, said=said))

    def _said(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-SAID_AT_MOST:].strip()
