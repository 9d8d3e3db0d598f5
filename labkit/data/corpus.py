"""Where the text comes from: a family, and text files as the plainest of it."""

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from labkit.data.files import digest, find
from labkit.spec import Choice, Mistake, Words
from labkit.tracking.progress import Progress

CHUNK = 1 << 20

Document = Iterable[str]
"""A document's text in pieces of any size, so that no document need fit into memory; ``("all of it",)`` is one."""


@dataclass(frozen=True)
class Source:
    """A corpus as it lies here now."""

    contents: str
    """Names the contents: changed contents have another name, in whatever place they lie."""
    version: str
    """What a reader of the record wants to know of where the text came from."""
    documents: Callable[[], Iterator[Document]]
    """All documents, in an order that depends on the contents alone."""


class Corpus(Choice):
    """A collection of documents: a new one is a class with a `kind` and `resolve`."""

    def resolve(self, base: Path, progress: Progress) -> Source:
        """Find the corpus; relative paths start at the folder `base`. Cheap where nothing changed. Raises Mistake."""
        raise NotImplementedError

    def look(self, base: Path) -> None:
        """Raise Mistake where it cannot be there; no text is read or downloaded. By default it is not looked for."""


class Text(Corpus):
    """UTF-8 text files, each a document: a file, a folder with all below it, or a pattern like ``books/**/*.txt``."""

    kind: Literal["text"] = "text"
    path: Words
    """File, folder or pattern, relative to the experiment's file."""

    def look(self, base: Path) -> None:
        find(base, self.path)

    def resolve(self, base: Path, progress: Progress) -> Source:
        files = find(base, self.path)
        version = files[0].name if len(files) == 1 else f"{len(files)} files"
        return Source(digest(files, progress), version, lambda: map(_pieces, files))


def _pieces(file: Path) -> Iterator[str]:
    """The text of a file as it stands, line ends included."""
    with file.open("rb") as stream:
        rest, position = b"", 0
        while chunk := stream.read(CHUNK):
            text, used = _decoded(file, rest + chunk, position, final=False)
            rest, position = (rest + chunk)[used:], position + used
            yield text
        _decoded(file, rest, position, final=True)


def _decoded(file: Path, data: bytes, position: int, final: bool) -> tuple[str, int]:
    try:
        return codecs.utf_8_decode(data, "strict", final)
    except UnicodeDecodeError as error:
        raise Mistake(
            f"data.corpus.path: {file} is not UTF-8 text: byte 0x{data[error.start]:02x} at offset "
            f"{position + error.start:,}. Convert it (iconv -t utf-8), or write a pattern that leaves it out."
        ) from error
