"""MLflow follows the runs; whatever goes wrong with it stays away from the driver."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from labkit.tracking.mlflow import Mirror, mirror, pending
from labkit.tracking.record import Edition

UNTOUCHED = """
import sys
from pathlib import Path
from labkit.tracking.mlflow import Mirror, pending
from labkit.tracking.record import Edition
edition = Edition(Path(sys.argv[1]))
assert not pending(edition, sys.argv[2])
follower = Mirror(edition, sys.argv[2])
follower.start()
follower.close()
assert follower.error is None
assert "mlflow" not in sys.modules
"""


def points(edition: Edition, uri: str) -> int:
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(edition.title)
    runs = client.search_runs([experiment.experiment_id]) if experiment else []
    return sum(len(client.get_metric_history(run.info.run_id, "train/loss")) for run in runs)


def test_points_arrive_while_the_run_goes_on_and_the_rest_at_the_end(
    edition: Edition, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "EVERY", 0.1)
    (run,) = edition.runs()
    follower = Mirror(edition, uri)
    with run.lock():
        follower.start()
        until = time.monotonic() + 30
        while points(edition, uri) < 4 and time.monotonic() < until:
            time.sleep(0.2)
        assert points(edition, uri) == 4
        for step in range(5, 8):
            run.append(step, {"train/loss": 1.0})
        run.update(status="done", ended=1010.0)
    follower.close()
    assert follower.error is None
    assert points(edition, uri) == 7
    assert not pending(edition, uri)


def test_a_broken_store_is_said_once_and_raises_nothing(
    edition: Edition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "EVERY", 0.05)
    (tmp_path / "mlflow.db").write_text("no database" * 100)
    said: list[str] = []
    follower = Mirror(edition, f"sqlite:///{tmp_path}/mlflow.db", said.append)
    follower.start()
    time.sleep(0.5)
    follower.close()
    assert "not a database" in str(follower.error)
    (words,) = said
    assert "labkit sync" in words


def test_where_nothing_is_to_be_told_mlflow_is_not_imported(make: Callable[..., Edition], tmp_path: Path) -> None:
    command = [sys.executable, "-c", UNTOUCHED, str(make().path), f"sqlite:///{tmp_path}/mlflow.db"]
    subprocess.run(command, check=True, timeout=60)
    assert not (tmp_path / "mlflow.db").exists()
