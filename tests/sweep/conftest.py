"""A project with room for sweeps, and a worker whose runs are over at once: their loss is a function of their spec."""

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labkit.cli.application import app
from labkit.study.editions import Asked
from labkit.study.executors import Answer, Slot
from labkit.study.runner import Options
from labkit.sweep import plots, pool, views
from labkit.sweep import runner as runner_module
from labkit.sweep.loading import load_sweep, on_edition
from labkit.sweep.runner import SweepRunner
from labkit.tracking.console import Console
from labkit.tracking.record import Run
from labkit.train.run import Runtime

Write = Callable[..., Path]

SEARCH = """
sweep = Sweep(
    base=pico,
    scientific={"model.norm": ["rms", "layer"]},
    nuisance={"optimizer.lr": log_uniform(1e-3, 1e-1)},
    trials=8,
    minimize="val/loss",
)
"""


class NoMirror:
    """An MLflow that nobody looks at."""

    error = None

    def __init__(self, *_: object) -> None: ...
    def start(self) -> None: ...
    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module.mlflow, "Mirror", NoMirror)
    monkeypatch.setattr(runner_module.mlflow, "pending", lambda *_: False)


def loss_of(spec: dict[str, Any]) -> float:
    """Best at lr 0.01; the layer norm is better by 0.1, and seeds differ by thousandths."""
    layer = spec["model"]["norm"]["kind"] == "layer"
    noise = (7 * spec["seed"]["data"] + 3 * layer) % 5 / 1000
    return (
        2
        + (math.log10(spec["optimizer"]["lr"]) + 2) ** 2
        - 0.1 * layer
        + noise
        + (spec["schedule"]["warmup"] - 0.1) ** 2
    )


class Synthetic:
    """A worker that is done at once; `made` counts its runs."""

    made: list[Path] = []  # noqa: RUF012
    is_alive, room = True, 1

    def __init__(self, slot: Slot) -> None: ...
    def leave(self) -> None: ...
    def end(self) -> None: ...

    def give(self, run: Run) -> None:
        self.run = run

    def answer(self, seconds: float) -> tuple[Path, Answer] | Answer:
        answer = self.train(self.run)
        return answer if answer.died else (self.run.path, answer)

    def train(self, run: Run) -> Answer:
        spec, record = run.spec(), run.record()
        self.made.append(run.path)
        loss, steps = loss_of(spec), record["steps"]
        with run.lock():
            if spec["optimizer"]["lr"] > 0.2:
                run.update(status="diverged", diverged_at=3, started=time.time(), ended=time.time())
                return Answer("diverged")
            points = spec["evaluation"]["points"]
            for point in range(1, points + 1):
                run.append(steps * point // points, {"val/loss": loss + points / point})
            final = {"val/loss": loss, "perf/tokens_per_s": 1e9 * spec["optimizer"]["lr"]}
            run.update(status="done", step=steps, started=time.time(), ended=time.time(), seconds=1.0, final=final)
        return Answer("done")


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report, which takes seconds, is for the tests that look at it."""
    monkeypatch.setattr(runner_module.files, "write", lambda _: None)


@pytest.fixture
def no_drawings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's drawings, which take most of them."""
    monkeypatch.setattr(plots, "panels", lambda *_: [])
    monkeypatch.setattr(views, "by_optuna", lambda _: [])


@pytest.fixture
def synthetic(monkeypatch: pytest.MonkeyPatch) -> type[Synthetic]:
    """It trains in no time, and nobody waits for a disk: no power cut is looked at here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(pool, "Worker", Synthetic)
    Synthetic.made = []
    return Synthetic


@pytest.fixture
def write_sweep(project: Path) -> Write:
    """Put a sweep into the project's sweeps."""
    (project / "sweeps").mkdir()

    def written(code: str, name: str = "mine.py", head: str = "") -> Path:
        path = project / "sweeps" / name
        words = "Experiment, Sweep, Tune, choice, integers, log_uniform, uniform"
        path.write_text(
            f'"""What matters?"""\n{head}\nfrom experiments.baselines import pico\nfrom labkit import {words}\n{code}'
        )
        return path

    return written


ALL = Asked()


def made(
    file: Path, asked: Asked = ALL, *, trials: int = 0, storage: str = "", workers: int = 1, **runtime: Any
) -> SweepRunner:
    found, name = on_edition(load_sweep(file), asked, trials)
    options = Options(file.parents[1] / "runs", Runtime(device="cpu", **runtime), "labkit sweep", workers=workers)
    return SweepRunner(found, name, options, Console(), storage)


def records(runs: Path) -> dict[str, dict[str, Any]]:
    """Variant -> the record of its one run."""
    found = [json.loads(path.read_text()) for path in sorted(runs.glob("*/*/*/*/record.json"))]
    return {record["variant"]: record for record in found}


def labkit(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """The exit code, and what is on standard output and standard error."""
    capsys.readouterr()
    try:
        code = app([str(word) for word in words], standalone_mode=False) or 0
    except SystemExit as left:
        code = left.code
    told = capsys.readouterr()
    return int(code), told.out, told.err
