"""Where MLflow keeps its runs: a SQLite file beside the records unless MLFLOW_TRACKING_URI says otherwise."""

import fcntl
import logging
import os
import sqlite3
import sys
import warnings
from collections.abc import Generator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from labkit.spec import Mistake

if TYPE_CHECKING:
    from mlflow import MlflowClient

SQLITE = "sqlite:///"
PRIVATE = {
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
}
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}
NOISY = ("mlflow", "alembic", "sqlalchemy")
REMEDY = "Mend it, or set MLFLOW_TRACKING_URI to a server or to sqlite:////absolute/path.db."


def default_uri(runs: Path) -> str:
    """``$MLFLOW_TRACKING_URI``, else the absolute ``sqlite:////…/runs/mlflow.db``."""
    return _absolute(os.environ.get("MLFLOW_TRACKING_URI") or _address(runs / "mlflow.db"))


def database(uri: str) -> Path | None:
    """The file of a SQLite address; None for a server."""
    return Path(unquote(uri.removeprefix(SQLITE))) if uri.startswith(SQLITE) else None


def artifacts(uri: str, title: str) -> str | None:
    """Where an experiment's artifacts lie: beside the SQLite file; None leaves it to the server."""
    file = database(uri)
    return (file.parent / "mlflow-artifacts" / title).as_uri() if file else None


def public(uri: str) -> str:
    """The address without user and password, to be written down."""
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if parts.netloc else uri


def connect(uri: str) -> "MlflowClient":
    """A client of a store that is there and has this MLflow's schema. Raises Mistake where there is none."""
    os.environ.update({name: value for name, value in {**PRIVATE, **PATIENCE}.items() if name not in os.environ})
    quiet()
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    quiet()
    file = database(uri)
    try:
        with _made_once(file) if file else nullcontext():
            client = MlflowClient(tracking_uri=uri, registry_uri=uri)
            client.search_experiments(max_results=1)
    except (MlflowException, OSError, sqlite3.Error) as error:
        raise Mistake(f"MLflow's store {public(uri)} cannot be used: {_first_line(error)}. {REMEDY}") from error
    return client


def quiet() -> None:
    """Keep MLflow and what it builds on from logging and warning; what goes wrong is raised all the same."""
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module=rf"({'|'.join(NOISY)})(\.|$)")


def on_stderr(words: str) -> None:
    print(words, file=sys.stderr)


@contextmanager
def _made_once(file: Path) -> Generator[None]:
    """Let one process at a time open the file: two migrations of a new one at once leave it broken for good.

    A marker outlives a process that died while it made the file; then it is made anew.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    marker = _beside(file, ".new")
    with _beside(file, ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if marker.exists():
            for part in (file, _beside(file, "-wal"), _beside(file, "-shm")):
                part.unlink(missing_ok=True)
        if not file.exists():
            marker.touch()
        _open(file, new=marker.exists())
        yield
        marker.unlink(missing_ok=True)


def _open(file: Path, new: bool) -> None:
    """Fail at once where MLflow would try for 100 s; a write-ahead log lets readers in during writes."""
    with closing(sqlite3.connect(file, timeout=20)) as connection:
        connection.execute("PRAGMA journal_mode=WAL" if new else "PRAGMA schema_version")


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)


def _address(file: Path) -> str:
    """The file's address; MLflow decodes percent signs, and a question mark would end the path."""
    return SQLITE + quote(str(file.absolute()), safe="/ :@+,=()[]~")


def _absolute(uri: str) -> str:
    """The address with a SQLite path made absolute, so that it means the same in every folder."""
    return _address(file) if (file := database(uri)) else uri


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
