"""The user's own files: found by a path or a pattern, and known by their contents."""

import glob
import hashlib
import json
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from labkit.data.cache import cache_root, remembered
from labkit.spec import Mistake
from labkit.tracking.atomic import write_json
from labkit.tracking.progress import Progress

SETTLED_NS = 2_000_000_000
"""A file that changed this short a time ago could change again without its times or size showing it."""


def find(base: Path, pattern: str) -> list[Path]:
    """The files that a path, a folder or a pattern means, sorted by name; hidden ones are left out. Raises Mistake."""
    path = base / Path(pattern).expanduser()
    if path.is_file():
        return [path]
    root = glob.escape(str(path)) + "/**" if path.is_dir() else _beside(base, pattern)
    found = glob.glob(root, recursive=True)  # noqa: PTH207 (it leaves out what is hidden)
    files = sorted(file for file in map(Path, found) if file.is_file())
    if not files:
        fault = "holds no files" if path.is_dir() else "is neither a file, a folder, nor a pattern that fits any file"
        raise Mistake(
            f"data.corpus.path: {pattern!r} {fault} (looked at {path}). "
            "Write a path relative to the experiment's file, or a pattern such as 'books/**/*.txt'."
        )
    return files


def digest(files: Iterable[Path], progress: Progress) -> str:
    """Names the contents of files in their order; remembered by name, size and times, so asking again is cheap."""
    with _readable():
        stats = [(str(file.absolute()), file.stat()) for file in files]
    rows = [(name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for name, stat in stats]
    memory = cache_root() / "contents" / f"{hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:32]}.json"
    known = remembered(memory).get("contents")
    if known:
        return str(known)
    with _readable():
        contents = _read(rows, progress)
    if time.time_ns() - max(max(mtime, ctime) for _, _, mtime, ctime in rows) > SETTLED_NS:
        write_json(memory, {"version": 1, "contents": contents})
    return contents


@contextmanager
def _readable() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise Mistake(
            f"data.corpus.path: {error.filename} cannot be read: {error.strerror}. "
            "Make it readable, or write a pattern that leaves it out."
        ) from error


def _beside(base: Path, pattern: str) -> str:
    expanded = Path(pattern).expanduser()
    return str(expanded) if expanded.is_absolute() else f"{glob.escape(str(base))}/{expanded}"


def _read(rows: list[tuple[str, int, int, int]], progress: Progress) -> str:
    whole = hashlib.sha256()
    with progress.task("looking at the corpus", sum(size for _, size, _, _ in rows), "B") as advance:
        for name, size, _, _ in rows:
            with Path(name).open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
            advance(size)
    return whole.hexdigest()
