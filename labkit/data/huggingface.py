"""Documents in the formats of the datasets library: from local files, or from the Hugging Face hub."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from labkit.data.corpus import Corpus, Document, Source
from labkit.data.files import digest, find
from labkit.data.hub import commit_of, reason
from labkit.faults import closest
from labkit.spec import Count, Mistake, Words
from labkit.tracking.progress import Progress

FORMATS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".txt": "text"}
"""What reads a file, by the end of its name; that of a compressed one is told by the end before (.jsonl.gz)."""

NO_ROWS = ("BatchSize must be greater than 0", "StopIteration()")
"""How the library stumbles over a file without rows."""


class HuggingFace(Corpus):
    """A column of a dataset, a document a row: Parquet, JSONL or text by line, or a name on the Hugging Face hub."""

    kind: Literal["hf"] = "hf"
    path: Words
    """A file, folder or pattern, relative to the experiment's file; or else a name on the hub."""
    column: Words = "text"
    """The column that holds the text."""
    split: Words = "train"
    """What the dataset calls the part to read, on the hub or in a folder; the validation split is cut from it."""
    config: Words | None = None
    """The configuration, for a dataset on the hub that has several."""
    revision: Words = "main"
    """Branch, tag or commit on the hub. What a branch names is looked up each time: new data is another store."""
    streaming: bool = False
    """Read from the hub up to the limit, instead of downloading everything first."""
    limit: Count | None = None
    """The number of rows to take, from the first; without it, all of them."""

    def look(self, base: Path) -> None:
        if self._is_local(base):
            self._files(base)
        else:
            commit_of(self.path, self.revision)

    def resolve(self, base: Path, progress: Progress) -> Source:
        if self._is_local(base):
            files = self._files(base)
            version = files[0].name if len(files) == 1 else f"{len(files)} files"
            return Source(digest(files, progress), version, lambda: self._local(base, files))
        commit = commit_of(self.path, self.revision)
        place, streaming = (self.path, self.config), self.streaming
        return Source(commit, commit, lambda: self._documents(*place, revision=commit, streaming=streaming))

    def _is_local(self, base: Path) -> bool:
        written_so = self.path.startswith((".", "/", "~")) or any(sign in self.path for sign in "*?[")
        return written_so or (base / self.path).exists() or _format(Path(self.path)) is not None

    def _files(self, base: Path) -> list[Path]:
        """Those that are here. Raises Mistake for what only the hub can be asked; of a folder, a split can be, too."""
        files, is_folder = find(base, self.path), (base / Path(self.path).expanduser()).is_dir()
        for name in ("config", "revision", "streaming", *(() if is_folder else ("split",))):
            if (value := getattr(self, name)) != type(self).model_fields[name].default:
                raise self._mistake(name, f"{value} changes nothing where path {self.path!r} is here; leave it out")
        return files

    def _local(self, base: Path, files: list[Path]) -> Iterator[Document]:
        """A folder's splits are told from its files' names, by the library's rules; files and patterns have one."""
        folder = base / Path(self.path).expanduser()
        if folder.is_dir():
            return self._documents(str(folder), streaming=True)
        formats = {_format(file) for file in files}
        if len(formats) > 1 or None in formats:
            raise self._mistake("path", f"{self.path!r} must mean files of one kind of {', '.join(FORMATS)}")
        return self._documents(*formats, data_files={self.split: [str(file) for file in files]}, streaming=True)

    def _documents(self, *place: Any, **options: Any) -> Iterator[Document]:
        """The text of each row; a row without text has an empty one."""
        empty = True
        try:
            for row in islice(self._rows(*place, **options), self.limit):
                yield (self._text(row[self.column]),)
                empty = False
        except Mistake:
            raise
        except Exception as error:  # what the library raises has no common base
            if not any(sign in repr(error) for sign in NO_ROWS):
                raise self._mistake("path", f"{self.path!r} cannot be read: {reason(error)}") from error
            raise self._mistake("path", f"{self.path!r} holds a file without documents; leave it out") from error
        if empty:
            raise self._mistake("path", f"{self.path!r} holds no documents; choose files or a split with some")

    def _text(self, value: object) -> str:
        if not isinstance(value, str | None):
            raise self._mistake(
                "column", f"{self.column!r} holds {type(value).__name__}, not text. Choose another column"
            )
        return value or ""

    def _rows(self, *place: Any, **options: Any) -> Iterator[Any]:
        import datasets

        datasets.disable_progress_bars()
        datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # it tells again what it raises
        rows = datasets.load_dataset(*place, split=self.split, **options)
        columns = rows.column_names or list(next(iter(rows), {}))
        if not columns:
            return iter(())
        if self.column not in columns:
            raise Mistake(
                f"data.corpus.column: {self.path!r} has no column {self.column!r}.{closest(self.column, columns)}"
            )
        return iter(rows.select_columns([self.column]))

    def _mistake(self, field: str, fault: str) -> Mistake:
        return Mistake(f"data.corpus.{field}: {fault}.")


def _format(file: Path) -> str | None:
    return next((FORMATS[suffix] for suffix in reversed(file.suffixes[-2:]) if suffix in FORMATS), None)
