"""The user's own source of a run: which files it is, a copy in the run's folder, and how it is loaded again."""

import hashlib
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from types import ModuleType

from labkit.spec import Mistake
from labkit.tracking.atomic import write_bytes

LABKIT = Path(__file__).resolve().parents[1]
OTHERS = (LABKIT, Path(sysconfig.get_path("stdlib")).resolve())
"""What lies in a project, where it does, without belonging to it: Python itself is below many a home folder."""

INSTALLED = ("site-packages", "dist-packages")
"""Folders of installed packages."""

NEEDED = (
    *("labkit", "torch", "numpy", "pydantic", "pydantic_core", "mlflow", "datasets", "tokenizers", "safetensors"),
    *("scipy", "matplotlib", "rich", "typer", "triton", "pandas", "pyarrow", "sqlalchemy", "huggingface_hub"),
)
"""What labkit imports, some of it late: a module of such a name in the project's root would be taken for it."""


def check(file: Path, root: Path) -> None:
    """Raise Mistake for a file whose name would hide a module of Python's own or an installed one, and for a root in
    which something hides what labkit needs.
    """
    file, root = file.resolve(), root.resolve()
    for needed in NEEDED:
        for hiding in (root / f"{needed}.py", root / needed / "__init__.py"):
            if hiding.exists() and not hiding.is_relative_to(LABKIT):
                raise Mistake(f"{hiding} hides the module {needed!r}, which labkit needs; give it another name")
    if hidden := _hidden_by(_name(file.relative_to(root)), root):
        raise Mistake(f"the name {file.name} belongs to {hidden}; give the file another")


def load(file: Path, root: Path) -> ModuleType:
    """Import a file by path under its dotted name below `root`, which comes first on sys.path for its neighbours."""
    file, root = file.resolve(), root.resolve()
    if str(root) in sys.path:
        sys.path.remove(str(root))
    sys.path.insert(0, str(root))
    name = _name(file.relative_to(root))
    loaded = sys.modules.get(name)
    if loaded is not None and Path(loaded.__file__ or "") == file:
        return loaded
    inside = [str(file.parent)] if _is_package(file.relative_to(root)) else None
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


def _name(relative: Path) -> str:
    """The dotted name of a file below its root."""
    return ".".join(relative.parent.parts if _is_package(relative) else relative.with_suffix("").parts)


def _is_package(relative: Path) -> bool:
    return relative.name == "__init__.py" and len(relative.parts) > 1


def _hidden_by(name: str, root: Path) -> str:
    """What a top-level module of this name would hide: Python's own, or an installed one; empty for none."""
    if name in sys.stdlib_module_names:
        return "a module of Python's own"
    elsewhere = [path for path in sys.path if path and Path(path).resolve() != root]
    found = None if "." in name else importlib.machinery.PathFinder.find_spec(name, elsewhere)
    return f"the installed {found.origin}" if found is not None and found.origin else ""


def imported_sources(root: Path, *files: Path) -> dict[str, Path]:
    """The files and every module below `root` that is imported by now, apart from installed packages and labkit.

    Each by its place in a copy, from whose root it is imported under the name that it has here, however it was found:
    ``src/parts/norms.py`` that was imported as `parts.norms` lies at ``parts/norms.py``.
    """
    root = root.resolve()
    found = {file.resolve().relative_to(root).as_posix(): file.resolve() for file in files}
    users = cache(partial(_users, root))  # thousands of files lie in hundreds of folders, few of them the user's
    for name, module in list(sys.modules.items()):
        folder, file = os.path.split(getattr(module, "__file__", None) or "")
        if file.endswith(".py") and not file.startswith(".") and (own := users(folder)) and not _is_others(own / file):
            found[_place(name, (own / file).relative_to(root))] = own / file
    return dict(sorted(found.items()))


def _place(name: str, relative: Path) -> str:
    """Where the file of a module has to lie below a root to be imported by its name."""
    steps = (*name.split("."), "__init__") if relative.name == "__init__.py" else tuple(name.split("."))
    parts = relative.with_suffix("").parts
    return Path(*steps).with_suffix(".py").as_posix() if parts[-len(steps) :] == steps else relative.as_posix()


def capture(into: Path, files: Mapping[str, Path]) -> dict[str, str]:
    """Copy files to their places below `into`; gives each one's SHA-256 by its place."""
    for place, file in files.items():
        write_bytes(into / place, file.read_bytes())
    return hashes(files)


def hashes(files: Mapping[str, Path]) -> dict[str, str]:
    """Each file's SHA-256 by its place."""
    return {place: hashlib.sha256(file.read_bytes()).hexdigest() for place, file in files.items()}


def own() -> dict[str, str]:
    """The SHA-256 of each of labkit's own files that a run's numbers come from, by its path."""
    rooms = ("components", "data", "optim", "train")
    files = [LABKIT / "model.py", *(file for room in rooms for file in sorted((LABKIT / room).rglob("*.py")))]
    return {str(file.relative_to(LABKIT.parent)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _users(root: Path, folder: str) -> Path | None:
    """The folder as it lies below the root, where the user's own files can be: not where packages are installed."""
    path = Path(folder)
    if not path.is_absolute():
        return None
    path = path if path.is_relative_to(root) else path.resolve()
    parts = path.relative_to(root).parts if path.is_relative_to(root) else INSTALLED
    return None if any(part in INSTALLED or part.startswith(".") for part in parts) else path


def _is_others(path: Path) -> bool:
    """Whether a file in a project is labkit's or Python's."""
    return any(path.resolve().is_relative_to(other) for other in OTHERS)
