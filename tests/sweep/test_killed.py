"""A sweep as a user types it: its driver and its worker are killed in the middle of a trial, and it is typed again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run as Shown

from labkit.data import prepare
from labkit.sweep import runner
from labkit.tracking.mlflow.mirror import Mirror
from labkit.tracking.record import Edition, Run
from labkit.train.loop import train
from labkit.train.run import RunSpec, Runtime
from tests.sweep.conftest import Write, labkit

SWEEP = """
sweep = Sweep(
    base=pico.patched({"budget.steps": 250, "evaluation.points": 2}),
    scientific={"model.norm": ["rms", "layer"]},
    nuisance={"optimizer.lr": log_uniform(1e-3, 1e-1)},
    trials=2,
    minimize="val/loss",
)
"""
LABKIT = """
from labkit.cli import main, sweeps
from labkit.tracking.mlflow import mirror
mirror.EVERY = 60.0
runtime_for = sweeps.runtime_for
sweeps.runtime_for = lambda **asked: runtime_for(**asked).patched({"checkpoint_seconds": 0.02})
main()
"""
"""The command, with checkpoints as often as a short run needs, and with MLflow left for later."""


def wait_for(condition: Callable[[], Any], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def is_under_way(run: Run) -> bool:
    """Whether it has gone on since a checkpoint."""
    saved, lines = any(run.checkpoints.glob("step-*")), run.lines()[0]
    return saved and len(lines) > 3 and run.record()["status"] == "running"


def straight(run: Run, folder: Path) -> Run:
    """The same run without a break."""
    spec, base = RunSpec.from_json(run.spec()), Path(run.record()["base"])
    other = Run(folder / "straight")
    other.create(run.spec(), {"base": str(base), "sources": {}})
    train(other, spec, Runtime(device="cpu"), prepare(spec.data, spec.tokenizer, base), lambda: False)
    return other


def curves(run: Run) -> dict[str, list[tuple[int, float]]]:
    """Those that are no measurement of speed."""
    return {key: points for key, points in run.metrics().items() if not key.startswith("perf/")}


def shown(project: Path, title: str) -> list[Shown]:
    client = MlflowClient(f"sqlite:///{project}/runs/mlflow.db")
    experiment = client.get_experiment_by_name(title)
    assert experiment is not None
    return client.search_runs([experiment.experiment_id])


@pytest.mark.usefixtures("no_drawings")
def test_a_killed_sweep_that_is_typed_again_loses_no_trial_and_no_digit(
    write_sweep: Write, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sweep", write_sweep(SWEEP), "-j", 1, "--json"]
    command = [sys.executable, "-c", LABKIT, *map(str, words)]
    edition = Edition(project / "runs" / "sweeps.mine" / "main")
    with subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        wait_for(lambda: any(run.path.parent.name == "trial-000" and is_under_way(run) for run in edition.runs()))
        run = next(run for run in edition.runs() if run.path.parent.name == "trial-000")
        driver.kill()
        os.kill(run.record()["pid"], signal.SIGKILL)
    wait_for(lambda: not run.owned)
    assert run.record()["status"] == "running"
    _, offset = run.lines()
    monkeypatch.setattr(runner.mlflow, "Mirror", Mirror)
    code, out, err = labkit(capsys, *words)
    assert code == 0, err

    oracle = straight(run, project)
    assert run.lines(offset)[0][0]["step"] > oracle.lines()[0][0]["step"]
    assert curves(run) == curves(oracle)
    assert run.record()["final"]["val/loss"] == oracle.record()["final"]["val/loss"]

    [branch] = json.loads(out)["branches"]
    assert [(trial["number"], trial["state"]) for trial in branch["trials"]] == [(0, "done"), (1, "done")]
    assert sorted((run.path.parent.name, run.record()["status"]) for run in edition.runs()) == [
        ("baseline", "done"),
        ("trial-000", "done"),
        ("trial-001", "done"),
    ]
    told = shown(project, "sweeps.mine")
    assert sorted(run.data.tags.get("trial", "") for run in told) == ["", "0", "1"]
    assert {run.info.status for run in told} == {"FINISHED"}
    assert all({"lr", "norm"} <= run.data.params.keys() for run in told if "trial" in run.data.tags)
    [summary] = shown(project, "sweeps.mine/verdicts")
    assert summary.data.tags["trial"] == str(branch["best"])
    assert summary.data.metrics["trials"] == 2
