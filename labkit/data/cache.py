"""The folder of things that can be made again: who may write in it, and how a finished thing appears there."""

import errno
import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from labkit.spec import Mistake
from labkit.tracking.atomic import read_json
from labkit.tracking.progress import Progress


def cache_root() -> Path:
    """$LABKIT_CACHE, or ~/.cache/labkit."""
    return Path(os.environ.get("LABKIT_CACHE") or "~/.cache/labkit").expanduser().absolute()


def remembered(path: Path) -> dict[str, Any]:
    """What was written there in JSON; nothing where it cannot be read, since all of it can be made again."""
    try:
        return read_json(path)
    except (OSError, ValueError):
        return {}


@contextmanager
def writable() -> Generator[None]:
    """Tells what to do where the cache cannot be written."""
    try:
        yield
    except OSError as error:
        reasons = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}
        at, root = Path(error.filename or cache_root()), cache_root()
        is_below = error.errno in reasons and at.is_relative_to(root)
        is_above = root.is_relative_to(at) and not os.path.exists(at)  # noqa: PTH110  as Path.exists raises in a closed folder
        if not is_below and not is_above:
            raise
        raise Mistake(
            f"LABKIT_CACHE: cannot write to {cache_root()} ({error.strerror}). "
            "Set the environment variable LABKIT_CACHE to a folder with enough space that you may write to."
        ) from error


@contextmanager
def locked(path: Path, progress: Progress) -> Generator[None]:
    """One process at a time; the lock dies with its process. The file stays, since removing it would let two in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.task("waiting for another process that prepares the same data"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def appearing(folder: Path) -> Generator[Path]:
    """A fresh folder to fill, which becomes `folder` whole, or leaves nothing. The caller holds the lock."""
    fresh = folder.with_name(f".{folder.name}.unfinished")
    if fresh.exists():  # a process was killed here
        shutil.rmtree(fresh)
    fresh.mkdir(parents=True)
    try:
        yield fresh
        _sync(fresh)
        fresh.rename(folder)
        _sync(folder.parent)
    except BaseException:
        with suppress(OSError):
            shutil.rmtree(fresh)
        raise


def _sync(folder: Path) -> None:
    """Let a folder's entries reach the disk; files are synced by their writers."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
