"""What labkit finds on this machine, and what to do about what is missing."""

import importlib.metadata
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.spec import Mistake
from labkit.tracking.mlflow.store import connect, database, default_uri, public

GIB = 2**30
LITTLE = 5 * GIB
LIBRARIES = ("torch", "pydantic", "mlflow", "datasets", "tokenizers")


@dataclass(frozen=True)
class Check:
    """One finding: ok, not ok, or (None) not there and not needed."""

    name: str
    ok: bool | None
    found: str
    remedy: str = ""


def checks(runs: Path = Path("runs")) -> list[Check]:
    """What a run needs, the most basic first. Leaves nothing behind, never raises; a remedy only where it helps."""
    cache = Path(os.environ.get("LABKIT_CACHE") or "~/.cache/labkit").expanduser()
    probes: dict[str, Callable[[], Iterator[Check]]] = {
        "versions": _versions,
        "cpu": _cpu,
        "gpu": _gpus,
        "triton": _triton,
        "compiler": _compiler,
        "runs": lambda: _folder("runs", runs, "choose another folder with --runs"),
        "cache": lambda: _folder("cache", cache, "set LABKIT_CACHE to a folder on a larger disk"),
        "token stores": lambda: _stores(cache / "stores"),
        "mlflow store": lambda: _store(default_uri(runs)),
    }
    return [check for name, probe in probes.items() for check in _safely(name, probe)]


def _safely(name: str, probe: Callable[[], Iterator[Check]]) -> list[Check]:
    try:
        return list(probe())
    except Exception as error:
        return [Check(name, False, f"{type(error).__name__}: {error}", "unexpected: please report it with this line")]


def _check(name: str, ok: bool, found: str, remedy: str) -> Check:
    return Check(name, ok, found, "" if ok else remedy)


def _versions() -> Iterator[Check]:
    yield _check("labkit", True, f"{_version('labkit-lm')} in {Path(__file__).parent}", "")
    python = f"{platform.python_version()} on {platform.platform(terse=True)}"
    yield _check("python", sys.version_info >= (3, 11), python, "use Python 3.11 or later")
    for library in LIBRARIES:
        version = _version(library)
        yield _check(library, version is not None, version or "not installed", "pip install labkit-lm again")


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> Iterator[Check]:
    cores, threads = len(os.sched_getaffinity(0)), os.environ.get("OMP_NUM_THREADS")
    yield Check("cpu", True, f"{cores} cores" + (f", OMP_NUM_THREADS={threads}" if threads else ""))


def _gpus() -> Iterator[Check]:
    """What the driver sees, and whether torch sees it too."""
    import torch

    seen, cards = torch.cuda.device_count() if torch.cuda.is_available() else 0, _cards()
    for index in range(seen):
        facts = torch.cuda.get_device_properties(index)
        memory, capability = facts.total_memory / GIB, f"{facts.major}.{facts.minor}"
        yield Check(f"gpu {index}", True, f"{facts.name}, {memory:.0f} GiB, capability {capability}")
    if cards and not seen:
        built = torch.version.cuda or "no CUDA"
        yield Check(
            "gpu", False, f"{cards[0]}, which torch {torch.__version__} ({built}) does not see", "install a CUDA build"
        )
    if not cards and not seen:
        yield Check("gpu", None, "none; runs go to the CPU")


def _cards() -> list[str]:
    """The GPUs that NVIDIA's driver lists."""
    if not (tool := shutil.which("nvidia-smi")):
        return []
    query = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    listed = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    return listed.stdout.strip().splitlines() if listed.returncode == 0 else []


def _triton() -> Iterator[Check]:
    import torch

    gpu, version = torch.cuda.is_available(), _version("triton")
    if version is None:
        remedy = "install torch's CUDA build, which brings Triton" if gpu else ""
        yield Check("triton", False if gpu else None, "not installed", remedy)
    elif not gpu:
        yield Check("triton", None, f"{version}; no GPU to compile for")
    elif error := _compile_error():
        yield Check("triton", False, f"{version} cannot compile: {error}", "install a C compiler and Python's headers")
    else:
        yield Check("triton", True, f"{version}, compiles")


def _compile_error() -> str:
    """What goes wrong when the smallest kernel is compiled and run; empty where nothing does."""
    import torch

    try:
        doubled: Any = torch.compile(lambda x: x * 2)
        doubled(torch.ones(8, device="cuda"))
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""


def _compiler() -> Iterator[Check]:
    """Triton builds its launchers with a C compiler."""
    import torch

    found = next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)
    if found or torch.cuda.is_available():
        yield _check("compiler", bool(found), found or "no C compiler", "apt-get install gcc, or set CC")
    else:
        yield Check("compiler", None, "none; only Triton on a GPU needs one")


def _folder(name: str, folder: Path, elsewhere: str) -> Iterator[Check]:
    """Whether the folder, or the one that it will be made in, takes a file; and what room is left."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            yield Check(f"{name} folder", True, str(folder.absolute()))
    except OSError as error:
        yield Check(f"{name} folder", False, f"{there}: {error.strerror}", f"make it writable, or {elsewhere}")
    free = shutil.disk_usage(there).free
    yield _check(f"{name} disk", free >= LITTLE, f"{free / GIB:.0f} GiB free", f"make room, or {elsewhere}")


def _stores(folder: Path) -> Iterator[Check]:
    """What the prepared data takes: a store can be removed, for the next run that needs it makes it again."""
    stores = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    size = sum(file.stat().st_size for store in stores for file in store.rglob("*") if file.is_file())
    words = f"{len(stores)} of {size / GIB:.2f} GiB in {folder}; `rm -r` what is not needed, it is made again"
    yield Check("token stores", True if stores else None, words if stores else f"none yet in {folder}")


def _store(uri: str) -> Iterator[Check]:
    """Whether MLflow can read the store; one that is not there yet is not made."""
    file = database(uri)
    if file and not file.exists():
        yield Check("mlflow store", None, f"none yet at {public(uri)}; the first run makes it")
        return
    if file:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
    else:
        journal = "server"
    try:
        connect(uri)
        yield Check("mlflow store", True, f"{public(uri)} ({journal})")
    except Mistake as error:
        yield Check("mlflow store", False, str(error), "labkit sync fills a new store from the records")
