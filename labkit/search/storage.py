"""Where studies are kept: a journal file, or any database that Optuna knows."""

import fcntl
import importlib.util
import os
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from labkit.search.quiet import quiet
from labkit.spec import Mistake

TRIES = 5
"""How often a new database is opened: two who make its tables at once disturb each other."""

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


def opened(address: str) -> BaseStorage:
    """The storage at an URL, or in a journal file at a path. Raises Mistake where it cannot be reached."""
    quiet()
    try:
        if "://" not in address:
            path = Path(address)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            return JournalStorage(JournalFileBackend(str(path), lock_obj=DyingLock(path)))
        return _database(address)
    except Exception as error:  # of a driver that is missing, of a server, of a disk
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise Mistake(
            f"--storage {public(address)}: it cannot be used: {why}. "
            "Write an URL such as postgresql://user:password@host/database, or the path of a journal file."
        ) from error


def close(storage: BaseStorage) -> None:
    """Let go of a database's connections."""
    if isinstance(storage, RDBStorage):
        storage.remove_session()
        storage.engine.dispose()


def public(address: str) -> str:
    """The address without user and password, to be written down."""
    if "://" not in address:
        return address
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


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
