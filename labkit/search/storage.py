"""Where studies are kept: a journal file, or any database that Optuna knows."""

import fcntl
import importlib.util
import json
import os
import time
from pathlib import Path

from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from labkit.search.quiet import quiet
from labkit.spec import Mistake

TRIES = 5
"""How often a new database is opened: two who make its tables at once disturb each other."""

LONGEST = 2**20
"""Bytes at the end of a journal in which its last line lies."""

TIMEOUT = 10
"""Seconds that a server has to answer."""


class DyingLock(JournalFileOpenLock):
    """A lock on the journal that dies with its process; half a line that such a process left is taken back."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path, self.beside = path, path.with_name(path.name + ".lock")
        self.descriptor = -1

    def acquire(self) -> bool:
        self.descriptor = os.open(self.beside, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)
        self._mend()
        return True

    def release(self) -> None:
        os.close(self.descriptor)

    def _mend(self) -> None:
        with self.path.open("rb+") as file:
            size = file.seek(0, os.SEEK_END)
            if not size or os.pread(file.fileno(), 1, size - 1) == b"\n":
                return
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def opened(address: str, *, own: bool = False) -> BaseStorage:
    """The storage at an URL, or in a journal file at a path; the folder of labkit's own is made.

    Raises Mistake where it cannot be reached or read.
    """
    quiet()
    if "://" not in address:
        return _journal(Path(address), own=own)
    try:
        return _database(address)
    except Exception as error:  # of a driver that is missing, of a server
        raise _unusable(address, error) from error


def check_folder(address: str) -> None:
    """Raise Mistake for a journal file that the user wants in a folder that is not there."""
    folder = Path(address).parent
    if "://" not in address and not folder.is_dir():
        raise Mistake(f"--storage {address}: there is no folder {folder}; make it, or write another path")


def _journal(path: Path, *, own: bool) -> BaseStorage:
    if not own:
        check_folder(str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        storage = JournalStorage(JournalFileBackend(str(path), lock_obj=DyingLock(path)))
        _check_end(path)
    except OSError as error:
        if own:
            raise
        raise _unusable(str(path), error) from error
    except Exception as error:  # whatever Optuna makes of a line that is none of its own
        raise Mistake(
            f"{path}: this journal of trials is damaged: {_said(error)}. "
            "Move the file away: the trials that are finished are answered from their records"
        ) from error
    return storage


def _check_end(path: Path) -> None:
    """Raise ValueError for a last line that is whole and no JSON; Optuna only finds it when another one follows."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LONGEST))
        lines = file.read().split(b"\n")
    if len(lines) > 2:
        json.loads(lines[-2])


def _unusable(address: str, error: Exception) -> Mistake:
    return Mistake(
        f"--storage {public(address)}: it cannot be used: {_said(error)}. "
        "Write an URL such as postgresql://user:password@host/database, or the path of a journal file."
    )


def _said(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def close(storage: BaseStorage) -> None:
    """Let go of a database's connections."""
    if isinstance(storage, RDBStorage):
        storage.remove_session()
        storage.engine.dispose()


def public(address: str) -> str:
    """The address without user and password, to be written down."""
    if "://" not in address:
        return address
    scheme, _, rest = address.partition("://")
    return address if scheme.startswith("sqlite") else f"{scheme}://{rest.rpartition('@')[2]}"


def _database(address: str) -> BaseStorage:
    arguments: dict[str, object] = {"pool_pre_ping": True}
    if address.startswith("postgresql"):
        arguments["connect_args"] = {"connect_timeout": TIMEOUT}
        if address.startswith("postgresql://") and importlib.util.find_spec("psycopg2") is None:
            address = address.replace("postgresql://", "postgresql+psycopg://", 1)
    for attempt in range(TRIES):
        try:
            return RDBStorage(address, engine_kwargs=arguments)
        except Exception as error:
            if attempt == TRIES - 1 or not _was_disturbed(error):
                raise
            time.sleep(0.2 * (attempt + 1))
    raise AssertionError


def _was_disturbed(error: Exception) -> bool:
    """Whether another process was making the same tables, so that they are there a moment later."""
    return any(word in str(error) for word in ("already exists", "UniqueViolation", "duplicate key", "UNIQUE"))
