"""Files that are there as a whole or not at all, and in one place or two."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from labkit.spec import Mistake


class Damaged(Mistake):
    """A file holds what labkit did not write there."""


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file as a whole: readers see the old content or the new, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file as a whole."""
    write_bytes(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where the file is not there. Raises Damaged for anything else."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise Damaged(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(value, dict):
        raise Damaged(f"{path} cannot be read: it holds no object")
    return value


def link(there: str | Path, here: str | Path) -> None:
    """The same file in a second place, where it takes no room: a copy only where it cannot be linked to."""
    Path(here).unlink(missing_ok=True)
    try:
        os.link(there, here)
    except OSError:
        shutil.copy2(there, here)
