"""The MLflow UI on this machine, opened on an edition's charts or its verdicts."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from labkit.spec import Mistake
from labkit.tracking.mlflow import links
from labkit.tracking.mlflow.board import VERDICTS
from labkit.tracking.mlflow.place import HOST, PORT, keep
from labkit.tracking.mlflow.sidecar import Sidecar, lead_pages
from labkit.tracking.mlflow.store import PRIVATE, database, public
from labkit.tracking.record import Edition

LIGHT = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_LOGGING_LEVEL": "ERROR"}
"""The server's own default is fifteen processes and 3 GB; this is two and 0.5 GB."""
PORTS = 20
PATIENCE = 120


def serve(
    uri: str,
    port: int = PORT,
    edition: Edition | None = None,
    say: Callable[[str], None] = print,
    *,
    runs: Path,
    verdicts: bool = False,
) -> None:
    """Run the UI until Ctrl-C (or SIGTERM), on `port` or the next free one; `say` gets its address once it answers.

    The pages in `runs` lead there from then on. A server elsewhere is only pointed at. Raises Mistake: no store, no
    verdicts where they are to be opened, no free port, the server does not start.
    """
    file = database(uri)
    if uri.startswith("http"):
        return say(view_url(edition, uri, public(uri), verdicts=verdicts))
    if file and not file.exists():
        raise Mistake(f"{file}: no MLflow store yet. Run an experiment first; if there are records, `labkit sync`.")
    view_url(edition, uri, "", verdicts=verdicts)
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, signal.default_int_handler)
    base = f"http://{HOST}:{_free(port)}"
    with tempfile.TemporaryFile() as log:
        server = _started(uri, base, log)
        guard = _guard(server)
        try:
            _wait(server, base, log)
            keep(uri, base)
            lead_pages(runs, uri, base)
            say(view_url(edition, uri, base, verdicts=verdicts))
            server.wait()
        except KeyboardInterrupt:
            pass
        finally:
            _end(server)
            guard.kill()
            guard.wait()


def view_url(edition: Edition | None, uri: str, base_url: str, *, verdicts: bool = False) -> str:
    """The address of an edition's charts in the UI at `base_url`; of the list of experiments where it has none.

    With `verdicts`, of the table of its verdicts. Raises Mistake where MLflow has none.
    """
    note, base = Sidecar.read(edition.path) if edition else Sidecar(), base_url.rstrip("/")
    known = note.uri == public(uri)
    if verdicts and not (known and note.board):
        title = edition.title if edition else ""
        raise Mistake(f"{title}{VERDICTS}: MLflow has no verdicts yet. Write  labkit sync {title}".rstrip())
    if verdicts:
        return f"{base}/{links.table(note.board)}"
    if not note.experiment_id or not known:
        return f"{base}/#/experiments"
    return f"{base}/{links.charts(note.experiment_id)}"


def _free(port: int) -> int:
    """The port, or the next one that nobody listens on."""
    for candidate in range(port, min(port + PORTS, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, candidate))
            except (OSError, OverflowError):
                continue
            return candidate
    raise Mistake(f"No free port from {port} to {port + PORTS - 1} on {HOST}: choose another with --port.")


def _started(uri: str, base: str, log: IO[bytes]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, "--workers", "1"]
    command += ["--host", HOST, "--port", base.rpartition(":")[2]]
    if file := database(uri):
        command += ["--default-artifact-root", (file.parent / "mlflow-artifacts").as_uri()]
    environment = {**os.environ, **PRIVATE, **LIGHT}
    return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def _guard(server: "subprocess.Popen[bytes]") -> "subprocess.Popen[bytes]":
    """Ends the server when this process does, however it does: the pipe that it reads from closes then."""
    script = "read _; kill -s TERM -- -$0; sleep 5; kill -s KILL -- -$0"
    null = subprocess.DEVNULL
    command = ["sh", "-c", script, str(server.pid)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True)


def _wait(server: "subprocess.Popen[bytes]", base: str, log: IO[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while not _answers(base):
        if server.poll() is not None or time.monotonic() > until:
            log.seek(0)
            raise Mistake(f"The MLflow server did not start:\n{log.read().decode(errors='replace')[-2000:]}")
        time.sleep(0.2)


def _answers(base: str) -> bool:
    try:
        with urllib.request.urlopen(f"{base}/health", timeout=2) as response:
            return response.status == 200
    except OSError:
        return False


def _end(server: "subprocess.Popen[bytes]") -> None:
    """Stop the server and its children, which form a session of their own."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, sign)
            server.wait(10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
