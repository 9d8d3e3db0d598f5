"""Text in tens of megabytes without a download: the Python sources of packages that are installed anyway."""

import importlib.metadata
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from labkit.data.corpus import Corpus, Document, Source
from labkit.data.files import digest
from labkit.fieldtypes import each_once
from labkit.spec import Mistake, Words
from labkit.tracking.progress import Progress


class Packages(Corpus):
    """The Python source of installed packages, a file a document; what is not UTF-8 is left out."""

    kind: Literal["packages"] = "packages"
    names: Annotated[tuple[Words, ...], Field(min_length=1), AfterValidator(each_once)]
    """As they are imported: "torch", "scipy". Other versions of them are another text, and the record says which."""

    def look(self, base: Path) -> None:
        self._files()

    def _files(self) -> list[Path]:
        return [file for name in self.names for file in sources(name)]

    def resolve(self, base: Path, progress: Progress) -> Source:
        files = self._files()
        return Source(digest(files, progress), ", ".join(map(versioned, self.names)), lambda: _documents(files))


def sources(name: str) -> list[Path]:
    """The files ``*.py`` of a package, sorted by their place in it. Raises Mistake for one that is not installed."""
    spec = find_spec(name) if name.isidentifier() else None
    places = (spec and spec.submodule_search_locations) or ()
    files = [file for place in places for file in sorted(Path(place).glob("**/*.py"))]
    if not files:
        raise Mistake(
            f"data.corpus.names: no Python sources of a package {name!r} are installed here; install it, or write the "
            "name by which one is imported, such as 'torch'"
        )
    return files


def versioned(name: str) -> str:
    """``torch 2.11.0``, for the reader of a record."""
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return name


def _documents(files: list[Path]) -> Iterator[Document]:
    for file in files:
        try:
            yield (file.read_text(encoding="utf-8"),)
        except UnicodeDecodeError:
            continue
