"""The user's own source of a run: which files it is, a copy in the run's folder, and how it is loaded again."""

import hashlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from labkit.spec import Mistake
from labkit.tracking.record import write_bytes

LABKIT = Path(__file__).resolve().parents[1]


def load(file: Path, root: Path) -> ModuleType:
    """Import a file by path under its dotted name below `root`, which comes first on sys.path for its neighbours.

    Raises Mistake for a file whose name would hide a module of Python's own.
    """
    file, root = file.resolve(), root.resolve()
    if str(root) in sys.path:
        sys.path.remove(str(root))
    sys.path.insert(0, str(root))
    name = ".".join(file.relative_to(root).with_suffix("").parts)
    if name in sys.stdlib_module_names:
        raise Mistake(f"{file.name}: this name belongs to a module of Python's own; give the file another")
    loaded = sys.modules.get(name)
    if loaded is not None and Path(loaded.__file__ or "") == file:
        return loaded
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # pydantic looks up annotations there
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def imported_sources(root: Path, file: Path) -> list[Path]:
    """The file and every module below `root` that is imported by now, apart from installed packages and labkit."""
    root, found = root.resolve(), {file.resolve()}
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or "")
        if path.is_absolute() and path.suffix == ".py" and _is_own(path.resolve(), root):
            found.add(path.resolve())
    return sorted(found)


def capture(into: Path, root: Path, files: Iterable[Path]) -> dict[str, str]:
    """Copy files to the same places below `into`; gives each one's SHA-256 by its path relative to `root`."""
    hashes = {}
    for file in files:
        data = file.read_bytes()
        relative = file.resolve().relative_to(root.resolve())
        write_bytes(into / relative, data)
        hashes[str(relative)] = hashlib.sha256(data).hexdigest()
    return hashes


def _is_own(path: Path, root: Path) -> bool:
    """Whether a file is the user's: in the project, and neither labkit's nor installed there."""
    if not path.is_relative_to(root) or path.is_relative_to(LABKIT):
        return False
    parts = path.relative_to(root).parts
    return not any(part in ("site-packages", "dist-packages") or part.startswith(".") for part in parts)
