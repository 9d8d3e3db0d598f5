"""Tokens on disk: flat files of uint16 or uint32, hashed while they are written, mapped when they are read."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labkit.spec import Mistake

SHARD = 1 << 31
"""Tokens in a file, at most."""


def dtype_for(size: int) -> np.dtype[Any]:
    """The narrowest type that holds `size` token ids."""
    return np.dtype("<u2" if size <= 1 << 16 else "<u4")


class ShardWriter:
    """Appends tokens to ``<name>-00000.bin`` and the files that follow it; a context."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype[Any], limit: int = SHARD) -> None:
        self._folder, self._name, self._dtype, self._limit = folder, name, dtype, limit
        self.shards: list[dict[str, Any]] = []
        """Name, tokens and hash of each finished file."""
        self._open()

    def append(self, ids: NDArray[np.integer]) -> None:
        """Write tokens behind those already there."""
        while len(ids):
            if self._n == self._limit:
                self._close()
                self._open()
            part, ids = ids[: self._limit - self._n], ids[self._limit - self._n :]
            data = part.astype(self._dtype).tobytes()
            self._file.write(data)
            self._hash.update(data)
            self._n += len(part)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        """Let the file reach the disk, and note its size and hash."""
        with self._file as file:
            file.flush()
            os.fsync(file.fileno())
        self.shards.append({"file": self._path.name, "tokens": self._n, "sha256": self._hash.hexdigest()})

    def _open(self) -> None:
        self._path = self._folder / f"{self._name}-{len(self.shards):05}.bin"
        self._file = self._path.open("wb")
        self._hash = hashlib.sha256()
        self._n = 0


@dataclass(frozen=True)
class Split:
    """One side of a store: its tokens in the order of the documents, each document ended by the end token."""

    name: str
    shards: Sequence[NDArray[np.unsignedinteger]]
    n_tokens: int
    n_bytes: int
    """UTF-8 bytes of the text; end tokens have none."""
    n_documents: int

    @classmethod
    def opened(cls, folder: Path, name: str, facts: dict[str, Any], dtype: np.dtype[Any]) -> "Split":
        """Map the files; only their sizes are looked at. Raises Mistake for files that are not whole."""
        shards = [_mapped(folder / shard["file"], shard["tokens"], dtype) for shard in facts["shards"]]
        return cls(name, shards, facts["tokens"], facts["bytes"], facts["documents"])

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        """The tokens from `start` to before `stop`, or to the end of the split."""
        parts: list[NDArray[np.unsignedinteger]] = []
        for shard in self.shards:
            parts.append(shard[max(start, 0) : max(stop, 0)])
            start, stop = start - len(shard), stop - len(shard)
        return np.concatenate(parts).astype(np.int64)

    def rows(self, starts_N: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """The `length` tokens from each start on: (N, length)."""
        rows = np.empty((len(starts_N), length), np.int64)
        for row, start in zip(rows, starts_N.tolist(), strict=True):
            row[:] = self.read(start, start + length)
        return rows


def _mapped(path: Path, tokens: int, dtype: np.dtype[Any]) -> NDArray[np.unsignedinteger]:
    found = path.stat().st_size if path.exists() else 0
    if found != tokens * dtype.itemsize:
        raise Mistake(
            f"{path} has {found:,} bytes where {tokens * dtype.itemsize:,} were written: the data store is damaged. "
            f"Remove the folder {path.parent} and run again: it is made anew."
        )
    return np.memmap(path, dtype, mode="r")
