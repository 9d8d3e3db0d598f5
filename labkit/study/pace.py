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
from labkit.study.ending import Part, look, parts
from labkit.study.executors import Slot
from labkit.study.plan import Job, Planner
from labkit.tracking.record import Edition, Run
from labkit.train import started, wires

FEW, MANY = 4, 64
"""Steps of the first and at most of the second measurement."""

LONG = 3.0
"""Seconds that the second one is to take."""

LOOKS, LOOKING = 4, 0.3
"""Evaluations on the way in it, and the seconds that each of them is to take."""

FORWARD = 3
"""A step takes so many times as long as scoring its tokens."""

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
    """What comes once: building, the checkpoint, and of records the evaluation at the end."""
    source: str
    """measured, remembered or records"""
    start: float = 0.0
    """Until a fresh worker is ready for its first run; 0 where that was not seen."""
    at: float = 0.0
    """When it was measured, in Unix seconds, where it is remembered."""
    token: float = 0.0
    """Scoring one; 0 where no evaluation was seen."""
    end: float = 0.0
    """The evaluation at the end, where it is not in `once`: reckoned, for it may be long."""

    def seconds(self, steps: int, looks: int) -> float:
        """Of a whole run."""
        return self.once + self.end + self.step * steps + self.look * min(looks, steps)

    @classmethod
    def mean(cls, paces: Sequence["Pace"]) -> Self:
        """Of measurements that were taken side by side."""
        figures = {name: sum(getattr(pace, name) for pace in paces) / len(paces) for name in SECONDS}
        return cls(source=paces[0].source, **figures)

    def ending(self, parts: Sequence[Part]) -> Self:
        """With what is scored at the end of a run, where that is not in what records tell."""
        return self if self.source == "records" else replace(self, end=self.token * sum(part.work for part in parts))


SECONDS = ("step", "look", "once", "start", "token", "end")
"""The figures of a pace."""


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
    found: dict[str, list[tuple[float, Pace]]] = {}
    for path in runs.glob("*/*/*/seed*/record.json"):
        run = Run(path.parent)
        if run.fault or not _is_like(record := run.record(), slot):
            continue
        if (key := shape(run.spec(), record["params"], record["flops_per_token"])) in shapes:
            found.setdefault(key, []).append((record["ended"], _told(run)))
    return {key: _usual([pace for _, pace in sorted(told, key=_first)[-RECENT:]]) for key, told in found.items()}


def _first(told: tuple[float, Pace]) -> float:
    return told[0]


def _told(run: Run) -> Pace:
    """What one run tells, whose evaluations are all in what came beside its steps."""
    record, spec = run.record(), run.spec()
    beside = record["ended"] - record["started"] - record["seconds"]
    scored = min(spec["evaluation"]["windows"] * spec["model"]["context"], record["data"]["val_tokens"] - 1)
    token = median(_looks(run) or [0.0]) / scored
    return Pace(record["seconds"] / record["steps"], 0.0, beside, "records", token=token)


def _usual(told: Sequence[Pace]) -> Pace:
    step, once, token = (median(getattr(pace, name) for pace in told) for name in ("step", "once", "token"))
    return Pace(step, 0.0, once, "records", token=token)


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
        """First very few steps, which say how many make a good measurement, then these, with more evaluations.

        What is scored, on the way and at the end, is as much as that takes, however much a run scores.
        """
        spec, begun = job.counted.arm.spec, time.time()
        few = min(spec.evaluation.windows, spec.batch_size)
        short = self._train(job, store, planner, steps=FEW, looks=1, windows=few)
        steps = max(LOOKS, min(MANY, int(LONG / short.step)))
        windows = max(few, int(FORWARD * LOOKING / short.step * spec.batch_size))
        long = self._train(job, store, planner, steps=steps, looks=LOOKS, windows=windows)
        token = long.look / long.scored
        beside = short.beside - 2 * short.scored * token, long.beside - (LOOKS + 1) * long.look
        once = max(0.0, sum(beside) / 2)
        seen = Pace(long.step, token * look(spec, store), once, "measured", short.started - begun, token=token)
        return seen.ending(parts(spec, store))

    def end(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.communicate()

    def _train(self, job: Job, store: Store, planner: Planner, *, steps: int, looks: int, windows: int) -> "_Timed":
        run = planner.edition.run(job.counted.arm.name, steps, job.fingerprint)
        counted = _shortened(job.counted, steps, looks, windows)
        sampled = min(windows * counted.arm.spec.model.context + 1, store.train.n_tokens)
        planner.plan(Job(run, counted, job.seed), store, {"sampled": sampled})
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
        return _Timed.of(run, sampled - 1)


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
    scored: int
    """Tokens of each evaluation, that at the end among them."""

    @classmethod
    def of(cls, run: Run, scored: int) -> Self:
        """The first step is none that counts, and belongs to what comes once."""
        record = run.record()
        step = record["tokens_per_step"] / record["final"]["perf/tokens_per_s"]
        beside = record["ended"] - record["started"] - step * record["steps"]
        return cls(record["started"], step, median(_looks(run) or [0.0]), beside, scored)


def _looks(run: Run) -> list[float]:
    """Seconds from the line of a step to that of the evaluation after it."""
    lines = run.lines()[0]
    trained = {line["step"]: line["time"] for line in lines if "train/loss" in line}
    seen = {line["step"]: line["time"] for line in lines if "val/loss" in line}
    return [seen[step] - trained[step] for step in seen.keys() & trained.keys()]


def _shortened(counted: Counted, steps: int, looks: int, windows: int) -> Counted:
    """So many steps that change nearly nothing, whatever the schedule says, and so many windows an evaluation."""
    changes = {
        "budget": {"kind": "steps", "steps": steps},
        "schedule": {"kind": "constant", "warmup": 0},
        "optimizer.lr": 1e-9,
        "evaluation": {"points": looks, "windows": windows, "beyond": [], "also": {}},
    }
    return replace(counted, arm=replace(counted.arm, spec=counted.arm.spec.patched(changes)), steps=steps)
