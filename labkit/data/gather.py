"""A corpus is read once, into one file, whatever it is read from."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from labkit.data.corpus import Document
from labkit.data.documents import Documents, Row, hasher
from labkit.spec import Mistake
from labkit.tracking.progress import Advance, Progress

REPORT = 1 << 20
"""Bytes between two words to the progress bar."""


def gather(documents: Iterable[Document], path: Path, progress: Progress) -> Documents:
    """Write the text of all documents that have any into a file. Raises Mistake where there is none."""
    with path.open("wb") as file, progress.task("reading the corpus", unit="B") as advance:
        gathered = Documents.at(path, _written(documents, file, advance))
    if not len(gathered):
        raise Mistake("data.corpus: the corpus holds no text. Choose files, a column or a split with some.")
    return gathered


def _written(documents: Iterable[Document], file: BinaryIO, advance: Advance) -> Iterator[Row]:
    start = reported = 0
    for number, document in enumerate(documents):
        length, drawn = 0, hasher()
        for text in document:
            data = _encoded(text, number)
            drawn.update(data)
            length += file.write(data)
        if length:
            yield start, length, drawn.digest()
        start += length
        if start - reported >= REPORT:
            advance(start - reported)
            reported = start


def _encoded(text: str, number: int) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Mistake(
            f"data.corpus: document {number} holds {text[error.start]!r}, half of a surrogate pair, which UTF-8 "
            "cannot write. Mend the document, or leave it out."
        ) from error
