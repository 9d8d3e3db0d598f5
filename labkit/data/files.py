"""The user's own files: found by a path or a pattern, and known by their contents."""

import glob
import hashlib
import json
import time
from collections.abc import Iterable
from pathlib import Path

from labkit.data.cache import cache_root, writable
from labkit.spec import Mistake
from labkit.tracking.progress import Progress
from labkit.tracking.record import read_json, write_json

SETTLED_NS = 2_000_000_000
"""A file that changed this short a time ago could change again without its times or size showing it."""


def find(base: Path, pattern: str, place: str) -> list[Path]:
    """The files that a path, a folder or a pattern means, sorted by name; hidden ones are left out. Raises Mistake."""
    path = base / Path(pattern).expanduser()
    if path.is_file():
        return [path]
    root = glob.escape(str(path)) + "/**" if path.is_dir() else _beside(base, pattern)
    files = sorted(Path(name) for name in glob.glob(root, recursive=True) if Path(name).is_file())
    if not files:
        found = (
            "holds no files" if path.is_dir() else "is neither a file nor a folder, nor a pattern that fits any file"
        )
        raise Mistake(
            f"{place}: {pattern!r} {found} (looked at {path}). "
            "Write a path relative to the experiment's file, or a pattern such as 'books/**/*.txt'."
        )
    return files


def digest(files: Iterable[Path], progress: Progress) -> str:
    """A name for the contents of files in their order; remembered by name, size and times, so that asking again is cheap."""
    stats = [(str(file.absolute()), file.stat()) for file in files]
    rows = [(name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for name, stat in stats]
    memory = cache_root() / "contents" / f"{hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:32]}.json"
    known = read_json(memory).get("contents")
    if known:
        return str(known)
    contents = _read(rows, progress)
    if time.time_ns() - max(max(mtime, ctime) for _, _, mtime, ctime in rows) > SETTLED_NS:
        with writable():
            write_json(memory, {"version": 1, "contents": contents})
    return contents


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
