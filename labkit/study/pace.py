"""How fast runs go on this machine: from its records, or from a few steps of each shape in workers."""

import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Self

from labkit.data import Store
from labkit.spec import Mistake
from labkit.study.counting import Counted
from labkit.study.executors import Slot
from labkit.study.plan import Job, Planner
from labkit.tracking.record import Edition, Run
from labkit.train import started, wires

FEW, MANY = 4, 64
"""Steps of the first and at most of the second measurement."""

LONG = 3.0
"""Seconds that the second one is to take."""

LOOKS = 4
"""Evaluations on the way in it."""

RECENT = 12
"""So many records at most tell a pace."""

SAME = ("mode", "kernels", "micro_batch", "activation_checkpointing", "capture", "compile", "data_parallel")
"""Of a runtime, what speed depends on."""


@dataclass(frozen=True)
class Pace:
    """Seconds that the parts of a run take."""

    step: float
    look: float
    """An evaluation on the way."""
    once: float
    """What comes once: building, the evaluation at the end, the checkpoint."""
    source: str
    """measured, remembered or records"""
    start: float = 0.0
    """Until a fresh worker is ready for its first run; 0 where that was not seen."""
    at: float = 0.0
    """When it was measured, in Unix seconds, where it is remembered."""

    def seconds(self, steps: int, looks: int) -> float:
        """Of a whole run."""
        return self.once + self.step * steps + self.look * min(looks, steps)

    @classmethod
    def mean(cls, paces: Sequence["Pace"]) -> Self:
        """Of measurements that were taken side by side."""
        step, look, once, start = (
            sum(getattr(pace, name) for pace in paces) / len(paces) for name in ("step", "look", "once", "start")
        )
        return cls(step, look, once, paces[0].source, start)


def shape(spec: Mapping[str, Any], params: int, flops_per_token: int) -> str:
    """What of a run spec, as JSON, decides how long its steps take: no seed, no budget, no number with a fraction.

    A fraction that sets a size, such as the multiplier of d_ff, is in what the model costs.
    """
    kept = {key: value for key, value in spec.items() if key not in ("seed", "budget", "schedule")}
    return json.dumps([_without_floats(kept), params, flops_per_token], sort_keys=True)


def _without_floats(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_floats(value) for key, value in tree.items() if not isinstance(value, float)}
    return [_without_floats(value) for value in tree] if isinstance(tree, list) else tree


def recorded(runs: Path, slot: Slot, shapes: Sequence[str]) -> dict[str, Pace]:
    """The shapes that runs on record tell of: finished in one go, on this machine, with this runtime."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for path in runs.glob("*/*/*/seed*/record.json"):
        run = Run(path.parent)
        if run.fault or not _is_like(record := run.record(), slot):
            continue
        if (key := shape(run.spec(), record["params"], record["flops_per_token"])) in shapes:
            wall = record["ended"] - record["started"]
            found.setdefault(key, []).append(
                (record["ended"], record["seconds"] / record["steps"], wall - record["seconds"])
            )
    return {key: _usual([each[1:] for each in sorted(told)[-RECENT:]]) for key, told in found.items()}


def _usual(told: Sequence[tuple[float, ...]]) -> Pace:
    return Pace(median(step for step, _ in told), 0.0, median(once for _, once in told), "records")


def _is_like(record: Mapping[str, Any], slot: Slot) -> bool:
    runtime, told = slot.runtime.as_json(), {"data_parallel": 1, **record.get("runtime", {})}
    whole = record.get("status") == "done" and len(record.get("sessions", [])) == 1 and record.get("seconds", 0) > 0
    here = record.get("host") == socket.gethostname() and (record["device"] == "cpu") == (slot.runtime.device == "cpu")
    return whole and here and all(told.get(name) == runtime[name] for name in SAME)


Told = Callable[[int], None]
"""Hears which of the jobs is being timed, counted from 0."""


def measured(
    slots: Sequence[Slot], jobs: Sequence[tuple[Job, Store]], planner: Planner, told: Told
) -> list[Pace | None]:
    """The pace of each job's shape, by a few steps of it on every slot at once, as the experiment would run.

    None for one that diverges at once. Raises Mistake where a worker cannot train it.
    """
    timers = [_Timer(slot) for slot in slots]
    with tempfile.TemporaryDirectory(prefix="labkit-plan-") as folder, ThreadPoolExecutor(len(timers)) as pool:
        apart = [replace(planner, edition=Edition(Path(folder) / f"{at}" / "main")) for at in range(len(timers))]
        hears = [told, *([_nobody] * (len(timers) - 1))]
        try:
            work = [
                pool.submit(_all, timer, jobs, own, hear) for timer, own, hear in zip(timers, apart, hears, strict=True)
            ]
            paces = [each.result() for each in work]
        finally:
            for timer in timers:
                timer.end()
    return [_together(side_by_side) for side_by_side in zip(*paces, strict=True)]


def _nobody(_: int) -> None: ...


def _all(timer: "_Timer", jobs: Sequence[tuple[Job, Store]], planner: Planner, told: Told) -> list[Pace | None]:
    paces: list[Pace | None] = []
    for at, (job, store) in enumerate(jobs):
        told(at)
        paces.append(timer.pace(job, store, planner))
    return paces


def _together(side_by_side: Sequence[Pace | None]) -> Pace | None:
    known = [pace for pace in side_by_side if pace]
    return Pace.mean(known) if len(known) == len(side_by_side) else None


class _Diverged(Exception):
    """A few steps that come to no number tell nothing of how long they take."""


class _Timer:
    """A worker that trains a few steps of what it is given."""

    def __init__(self, slot: Slot) -> None:
        self.process = started.worker(
            slot.runtime, errors=subprocess.DEVNULL, environment=slot.environment, start_new_session=True
        )

    def pace(self, job: Job, store: Store, planner: Planner) -> Pace | None:
        """None where it diverges."""
        with suppress(_Diverged):
            return self._pace(job, store, planner)
        return None

    def _pace(self, job: Job, store: Store, planner: Planner) -> Pace:
        """First very few steps, which say how many make a good measurement, then these, with more evaluations."""
        begun = time.time()
        short = self._train(job, store, planner, steps=FEW, looks=1)
        steps = max(LOOKS, min(MANY, int(LONG / short.step)))
        long = self._train(job, store, planner, steps=steps, looks=LOOKS)
        once = (short.beside - short.look + long.beside - LOOKS * long.look) / 2
        return Pace(long.step, long.look, max(0.0, once), "measured", short.started - begun)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.communicate()

    def _train(self, job: Job, store: Store, planner: Planner, *, steps: int, looks: int) -> "_Timed":
        run = planner.edition.run(job.counted.arm.name, steps, job.fingerprint)
        planner.plan(Job(run, _shortened(job.counted, steps, looks), job.seed), store)
        assert self.process.stdin
        assert self.process.stdout
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{run.path}\n")
            self.process.stdin.flush()
        answers = map(wires.told, self.process.stdout)
        told = next((answer for answer in answers if "run" in answer), {"status": "failed", "error": "its worker died"})
        if told["status"] == "diverged":
            raise _Diverged
        if told["status"] != "done":
            raise Mistake(f"{job.counted.arm.name}: a few steps of it could not be timed: {_reason(told)}")
        return _Timed.of(run)


def _reason(told: Mapping[str, Any]) -> str:
    return told.get("error") or f"it {told['status']}"


@dataclass(frozen=True)
class _Timed:
    """What a short run took."""

    started: float
    step: float
    look: float
    """An evaluation on the way."""
    beside: float
    """All but the steps."""

    @classmethod
    def of(cls, run: Run) -> Self:
        """The first step is none that counts, and belongs to what comes once."""
        record = run.record()
        step = record["tokens_per_step"] / record["final"]["perf/tokens_per_s"]
        beside = record["ended"] - record["started"] - step * record["steps"]
        return cls(record["started"], step, median(_looks(run) or [0.0]), beside)


def _looks(run: Run) -> list[float]:
    """Seconds from the line of a step to that of the evaluation after it."""
    lines = run.lines()[0]
    trained = {line["step"]: line["time"] for line in lines if "train/loss" in line}
    seen = {line["step"]: line["time"] for line in lines if "val/loss" in line}
    return [seen[step] - trained[step] for step in seen.keys() & trained.keys()]


def _shortened(counted: Counted, steps: int, looks: int) -> Counted:
    """So many steps that change nearly nothing, whatever the schedule says."""
    changes = {
        "budget": {"kind": "steps", "steps": steps},
        "schedule": {"kind": "constant", "warmup": 0},
        "optimizer.lr": 1e-9,
        "evaluation.points": looks,
    }
    return replace(counted, arm=replace(counted.arm, spec=counted.arm.spec.patched(changes)), steps=steps)
