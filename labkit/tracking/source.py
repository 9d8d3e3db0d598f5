"""The user's own source of a run: which files it is, a copy in the run's folder, and how it is loaded again."""

import hashlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

from labkit.spec import Mistake
from labkit.tracking.record import write_bytes

LABKIT = Path(__file__).resolve().parents[1]

NEEDED = (
    *("labkit", "torch", "numpy", "pydantic", "pydantic_core", "mlflow", "datasets", "tokenizers", "safetensors"),
    *("scipy", "matplotlib", "rich", "typer", "triton", "pandas", "pyarrow", "sqlalchemy", "huggingface_hub"),
)
"""What labkit imports, some of it late: a module of such a name in the project's root would be taken for it."""


def load(file: Path, root: Path) -> ModuleType:
    """Import a file by path under its dotted name below `root`, which comes first on sys.path for its neighbours.

    Raises Mistake for a file whose name would hide a module of Python's own or an installed one, and for a root in
    which something hides what labkit needs.
    """
    file, root = file.resolve(), root.resolve()
    for needed in NEEDED:
        for hiding in (root / f"{needed}.py", root / needed / "__init__.py"):
            if hiding.exists() and not hiding.is_relative_to(LABKIT):
                raise Mistake(f"{hiding} hides the module {needed!r}, which labkit needs; give it another name")
    if str(root) in sys.path:
        sys.path.remove(str(root))
    sys.path.insert(0, str(root))
    parts = file.relative_to(root).with_suffix("").parts
    is_package = parts[-1] == "__init__" and len(parts) > 1
    name = ".".join(parts[:-1] if is_package else parts)
    if hidden := _hidden_by(name, root):
        raise Mistake(f"the name {file.name} belongs to {hidden}; give the file another")
    loaded = sys.modules.get(name)
    if loaded is not None and Path(loaded.__file__ or "") == file:
        return loaded
    inside = [str(file.parent)] if is_package else None
    specification = importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
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


def _hidden_by(name: str, root: Path) -> str:
    """What a top-level module of this name would hide: Python's own, or an installed one; empty for none."""
    if name in sys.stdlib_module_names:
        return "a module of Python's own"
    elsewhere = [path for path in sys.path if path and Path(path).resolve() != root]
    found = None if "." in name else importlib.machinery.PathFinder.find_spec(name, elsewhere)
    return f"the installed {found.origin}" if found is not None and found.origin else ""


def imported_sources(root: Path, *files: Path) -> list[Path]:
    """The files and every module below `root` that is imported by now, apart from installed packages and labkit."""
    root, found = root.resolve(), {file.resolve() for file in files}
    resolved = cache(Path.resolve)  # of thousands of files in hundreds of folders
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or "")
        if path.is_absolute() and path.suffix == ".py":
            path = resolved(path.parent) / path.name
            path = path.resolve() if path.is_symlink() else path
            if _is_own(path, root):
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


def own() -> dict[str, str]:
    """The SHA-256 of each of labkit's own files that a run's numbers come from, by its path."""
    rooms = ("components", "data", "optim", "train")
    files = [LABKIT / "model.py", *(file for room in rooms for file in sorted((LABKIT / room).rglob("*.py")))]
    return {str(file.relative_to(LABKIT.parent)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _is_own(path: Path, root: Path) -> bool:
    """Whether a file is the user's: in the project, and neither labkit's nor installed there."""
    if not path.is_relative_to(root) or path.is_relative_to(LABKIT):
        return False
    parts = path.relative_to(root).parts
    return not any(part in ("site-packages", "dist-packages") or part.startswith(".") for part in parts)
