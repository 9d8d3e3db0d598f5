"""One store, made once, however many processes want it."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from labkit.spec import Mistake
from labkit.tracking.mlflow.store import artifacts, connect, database, default_uri, public

OPEN = """
import os, sys, warnings
from labkit.tracking.mlflow.store import connect, quiet
quiet()
import mlflow
warnings.filterwarnings("ignore", "This process .* is multi-threaded")
for name in ("by 0", "by 1", "by 2", "by 3"):
    if not os.fork():
        client = connect(sys.argv[1])
        client.create_run(client.create_experiment(name), run_name=name)
        os._exit(0)
assert [os.wait()[1] for _ in range(4)] == [0] * 4
"""
"""In four processes at once; MLflow, which takes seconds to import, is imported before."""


def test_the_store_lies_beside_the_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    uri = default_uri(Path("runs"))
    assert uri == f"sqlite:///{tmp_path}/runs/mlflow.db"
    assert database(uri) == tmp_path / "runs" / "mlflow.db"
    assert artifacts(uri, "rope@small") == (tmp_path / "runs/mlflow-artifacts/rope@small").as_uri()


def test_a_server_of_the_users_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    assert default_uri(Path("runs")) == "http://server:5000"
    assert database("http://server:5000") is None
    assert artifacts("http://server:5000", "rope") is None


def test_a_relative_database_of_the_users_means_the_same_everywhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mine.db")
    assert default_uri(Path("runs")) == f"sqlite:///{tmp_path}/mine.db"


def test_percent_signs_and_spaces_in_the_path_lead_to_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert database(default_uri(Path("/a b/50%20?"))) == Path("/a b/50%20?/mlflow.db")


def test_passwords_are_not_written_down() -> None:
    assert public("postgresql://me:secret@db:5432/mlflow?ssl=1") == "postgresql://db:5432/mlflow?ssl=1"
    assert public("sqlite:////runs/mlflow.db") == "sqlite:////runs/mlflow.db"


def test_four_processes_make_one_store_in_silence_after_one_that_died_on_it(tmp_path: Path) -> None:
    file = tmp_path / "runs" / "mlflow.db"
    file.parent.mkdir()
    (tmp_path / "runs" / "mlflow.db.new").touch()
    with closing(sqlite3.connect(file)) as half_made:
        half_made.execute("CREATE TABLE experiments (half INTEGER)")
    command = [sys.executable, "-W", "error", "-c", OPEN, f"sqlite:///{file}"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path, timeout=120, check=False
    )
    assert (done.returncode, done.stdout.decode()) == (0, "")
    names = {experiment.name for experiment in connect(f"sqlite:///{file}").search_experiments()}
    assert names == {"Default", *(f"by {k}" for k in range(4))}
    with closing(sqlite3.connect(file)) as made:
        assert made.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_file_that_is_no_database_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("this is no database, and long enough that SQLite looks at its head" * 20)
    with pytest.raises(Mistake, match=r"mlflow.db cannot be used: file is not a database.*MLFLOW_TRACKING_URI"):
        connect(f"sqlite:///{tmp_path}/mlflow.db")


def test_a_folder_of_files_is_refused_with_what_to_write_instead(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="MLFLOW_TRACKING_URI"):
        connect(tmp_path.as_uri())
