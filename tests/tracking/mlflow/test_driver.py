"""MLflow after a driver that was killed and run again: what the records say, once."""

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
from typer.testing import CliRunner

from labkit.cli import app
from labkit.tracking.mlflow.sidecar import Sidecar
from labkit.tracking.mlflow.store import connect
from labkit.tracking.record import Edition, Run

EXPERIMENT = '''"""Does theta matter?"""
from experiments.baselines import pico
from labkit import Experiment

long = pico.patched({"budget.steps": 100, "evaluation.points": 10})
experiment = Experiment(
    baseline=long, variants={"flat": {"model.position.theta": 5e5}}, seeds=1, metric="val/loss", match="none"
)
'''
WORDS = ("run", "experiments/mine.py", "--device", "cpu", "--workers", "1")
AS = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def commit(folder: Path) -> None:
    for words in (("init",), ("add", "experiments"), ("commit", "--message=theta")):
        subprocess.run(["git", *AS, *words], cwd=folder, check=True, capture_output=True)


def wait_for(condition: Callable[[], Any]) -> Any:
    """What the condition gives once it gives something."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.05)
    raise TimeoutError


def killed(folder: Path, edition: Edition) -> None:
    """Start the driver; hold the worker in the middle of a run until MLflow has its points; kill both."""
    null = subprocess.DEVNULL
    with subprocess.Popen([sys.executable, "-m", "labkit", *WORDS], cwd=folder, stdout=null, stderr=null) as driver:
        run = wait_for(lambda: next((run for run in edition.runs() if len(run.lines()[0]) > 5), None))
        worker = run.record()["pid"]
        os.kill(worker, signal.SIGSTOP)
        try:
            wait_for(lambda: Sidecar.read(run.path).steps)
        finally:
            driver.kill()
            os.kill(worker, signal.SIGKILL)
    assert run.record()["status"] == "running"


def curves(client: MlflowClient, run_id: str) -> dict[str, list[tuple[int, float]]]:
    keys = client.get_run(run_id).data.metrics
    return {key: sorted((p.step, p.value) for p in client.get_metric_history(run_id, key)) for key in keys}


def exact(points: dict[str, list[tuple[int, float]]]) -> dict[str, list[tuple[int, float]]]:
    """The curves that are no measurement of speed."""
    return {key: curve for key, curve in points.items() if not key.startswith(("perf/", "final/", "position/"))}


@pytest.mark.usefixtures("no_drawings")
def test_a_killed_driver_that_is_run_again_leaves_each_point_once(
    project: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    client = connect(uri)  # making the store takes seconds, which the killed driver is not to spend
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (project / "experiments" / "mine.py").write_text(EXPERIMENT)
    commit(project)
    edition = Edition(project / "runs" / "mine" / "main")
    killed(project, edition)
    monkeypatch.chdir(project)
    again = CliRunner().invoke(app, WORDS)
    assert again.exit_code == 0, again.output
    experiment = client.get_experiment_by_name("mine")
    assert experiment is not None
    shown = {run.data.tags["fingerprint"]: run for run in client.search_runs([experiment.experiment_id])}
    runs: dict[str, Run] = {run.record()["fingerprint"]: run for run in edition.runs()}
    assert shown.keys() == runs.keys()
    assert len(runs) == 2
    for fingerprint, run in runs.items():
        there, final = shown[fingerprint], run.record()["final"]
        have = curves(client, there.info.run_id)
        assert all(len({step for step, _ in curve}) == len(curve) for curve in have.values())
        assert exact(have) == exact(run.metrics())
        assert {f"final/{key.replace('/', '_')}": [(0, value)] for key, value in final.items()}.items() <= have.items()
        assert there.info.status == "FINISHED"
        assert there.data.tags["mlflow.source.name"] == "experiments/mine.py"
        assert there.data.tags["mlflow.source.git.dirty"] == "false"
        assert len(there.data.tags["mlflow.source.git.commit"]) == 40
        assert json.loads(there.inputs.dataset_inputs[0].dataset.profile)["train_tokens"] > 0
