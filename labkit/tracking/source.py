"""The user's own source of a run: which files it is, a copy in the run's folder, and how it is loaded again."""

import hashlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from labkit.tracking.record import write_bytes


def load(file: Path, root: Path) -> ModuleType:
    """Import a file by path under its dotted name below `root`, which comes first on sys.path for its neighbours."""
    file, root = file.resolve(), root.resolve()
    if str(root) in sys.path:
        sys.path.remove(str(root))
    sys.path.insert(0, str(root))
    name = ".".join(file.relative_to(root).with_suffix("").parts)
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
    for name, module in list(sys.modules.items()):
        path = Path(getattr(module, "__file__", None) or "/").resolve()
        if path.suffix == ".py" and path.is_relative_to(root) and not _installed(name, path.relative_to(root)):
            found.add(path)
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


def _installed(name: str, relative: Path) -> bool:
    top = name.partition(".")[0]
    hidden = any(part in ("site-packages", "dist-packages") or part.startswith(".") for part in relative.parts)
    return hidden or top in ("labkit", "__main__")
