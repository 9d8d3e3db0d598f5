"""The UI on this machine: at the right address, gone when it is told to go."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from labkit.spec import Mistake
from labkit.tracking.mlflow import Board, charts_page, serve, sync, view_url
from labkit.tracking.mlflow.sidecar import Sidecar
from labkit.tracking.record import Edition

SERVE = """
import sys
from pathlib import Path
from labkit.tracking.mlflow import serve
from labkit.tracking.record import Edition
edition = Edition(Path(sys.argv[3]))
say = lambda address: print(address, flush=True)
serve(sys.argv[1], int(sys.argv[2]), edition, say, runs=edition.path.parents[1])
print("ended")
"""

STAND_IN = """
import subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
subprocess.Popen(["sleep", "600"])
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Healthy).serve_forever()
"""
"""For MLflow's server, which takes seconds to begin: it answers as that does, and has a child as that has."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def server_of(pid: int) -> int:
    """The server that a command has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (server,) = [int(child) for child in children if b"mlflow" in Path(f"/proc/{child}/cmdline").read_bytes()]
    return server


def runs_on(group: int) -> bool:
    """Whether a process of the group lives; one that nobody has waited for does not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                return True
    return False


def test_the_address_leads_to_the_editions_charts(edition: Edition, uri: str) -> None:
    assert view_url(edition, uri, "http://127.0.0.1:5000/") == "http://127.0.0.1:5000/#/experiments"
    sync(edition, uri)
    address = view_url(edition, uri, "http://127.0.0.1:5000")
    assert "/runs?workflowType=machine_learning&viewStateShareKey=labkit&compareRunsMode=CHART" in address
    assert view_url(edition, "http://another:5000", "http://another:5000") == "http://another:5000/#/experiments"


def test_the_address_of_the_verdicts_leads_to_their_table_once_mlflow_has_them(edition: Edition, uri: str) -> None:
    sync(edition, uri)
    with pytest.raises(Mistake, match=rf"{edition.title}/verdicts: MLflow has no verdicts yet. Write  labkit sync"):
        view_url(edition, uri, "http://127.0.0.1:5000", verdicts=True)
    Board(f"{edition.title}/verdicts", "", (), ()).write(edition.path)
    sync(edition, uri)
    verdicts = MlflowClient(uri).get_experiment_by_name(f"{edition.title}/verdicts")
    assert verdicts is not None
    address = view_url(edition, uri, "http://127.0.0.1:5000", verdicts=True)
    assert f"/#/experiments/{verdicts.experiment_id}/runs?" in address
    assert address.endswith("viewStateShareKey=labkit")


def test_a_note_that_knows_no_verdicts_learns_of_them_with_a_sync(edition: Edition, uri: str) -> None:
    Board(f"{edition.title}/verdicts", "", (), ()).write(edition.path)
    sync(edition, uri)
    note = Sidecar.read(edition.path)
    replace(note, board="").write(edition.path)
    sync(edition, uri)
    assert Sidecar.read(edition.path) == note


def test_the_server_answers_on_the_next_free_port_and_leaves_with_its_children(edition: Edition, uri: str) -> None:
    sync(edition, uri)
    page = edition.path / "report.html"
    page.write_text(f'<a href="{charts_page(edition)}">charts</a>')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-c", SERVE, uri, str(port), str(edition.path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            address = process.stdout.readline()
            base = address.partition("/#")[0]
            assert base != f"http://127.0.0.1:{port}"
            assert charts_page(edition) == address.strip()
            assert page.read_text() == f'<a href="{address.strip()}">charts</a>'
            with urllib.request.urlopen(f"{base}/health", timeout=10) as answer:
                assert answer.status == 200
            server = server_of(process.pid)
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=30)[0] == "ended\n"
    with pytest.raises(ProcessLookupError):
        os.killpg(server, 0)


def test_the_server_goes_when_its_command_is_killed(
    edition: Edition, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(edition, uri)
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow" / "__init__.py").touch()
    (tmp_path / "mlflow" / "__main__.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    command = [sys.executable, "-c", SERVE, uri, str(free_port()), str(edition.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        server = server_of(process.pid)
        process.kill()
    until = time.monotonic() + 20
    while runs_on(server) and time.monotonic() < until:
        time.sleep(0.02)
    assert not runs_on(server)


def test_without_a_store_it_says_what_to_do_first(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="no MLflow store yet"):
        serve(f"sqlite:///{tmp_path}/mlflow.db", runs=tmp_path)


def test_a_server_elsewhere_is_only_pointed_at(edition: Edition) -> None:
    said: list[str] = []
    serve("http://me:secret@server:5000", edition=edition, say=said.append, runs=edition.path.parents[1])
    assert said == ["http://server:5000/#/experiments"]
