"""Documents on their way from the corpus to the tokens: without copies, cut where they are few, split.

The text stays in a file; only 32 bytes a document are held in memory.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from labkit.spec import Mistake

FEW = 20
"""Fewer documents than this are cut: a split by document needs some to choose from."""

SPLITTING = 2
"""The version of the rules that cut and split."""

CUT = 1 << 16
"""Bytes of what they are cut into, at most."""

PIECE = 1 << 18
"""Bytes of a document that are looked at together, at most."""

Row = tuple[int, int, bytes]


@dataclass(frozen=True)
class Documents:
    """Documents in a file of UTF-8: where each begins, how many bytes it has, and a key drawn from its text."""

    path: Path
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    keys: NDArray[np.uint64]
    """(documents, 2): 128 bits that only equal texts share."""

    @classmethod
    def at(cls, path: Path, rows: Iterable[Row]) -> "Documents":
        """From (start, length, key) of each."""
        layout = np.dtype([("start", np.int64), ("length", np.int64), ("key", np.uint64, (2,))])
        table = np.fromiter(((start, length, np.frombuffer(key, np.uint64)) for start, length, key in rows), layout)
        return cls(path, table["start"], table["length"], table["key"])

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def n_bytes(self) -> int:
        """UTF-8 bytes of all of them."""
        return int(self.lengths.sum())

    def where(self, chosen: NDArray[Any]) -> "Documents":
        """Some of them, in the same order."""
        return replace(self, starts=self.starts[chosen], lengths=self.lengths[chosen], keys=self.keys[chosen])

    def unique(self) -> "Documents":
        """The first of each text."""
        order = np.lexsort((self.keys[:, 1], self.keys[:, 0]))  # stable: the first of equals stays first
        copies = np.all(self.keys[order[1:]] == self.keys[order[:-1]], axis=1)
        keep = np.ones(len(self), dtype=np.bool_)
        keep[order[1:][copies]] = False
        return self.where(keep)

    def split(self, fraction: float) -> tuple["Documents", "Documents"]:
        """Those to train on, and about that fraction of the bytes to validate on.

        Whole documents, where there are many and enough of them are no longer than the share; else pieces of them,
        and the share is then met within half a piece. Raises Mistake where there is nothing to split.
        """
        share = fraction * self.n_bytes
        whole = len(self) >= FEW and self.lengths[self.lengths <= share].sum() >= share
        documents = self if whole else self.cut(share)
        chosen = documents.validation(fraction, nearest=not whole)
        return documents.where(~chosen), documents.where(chosen)

    def cut(self, share: float) -> "Documents":
        """Pieces of 64 KiB, a twentieth of the text, or the share of bytes, whichever is least, cut at line ends."""
        limit = max(4, min(CUT, self.n_bytes // FEW, int(share)))
        return Documents.at(self.path, ((start, len(data), key(data)) for start, data, _ in self._pieces(limit)))

    def sample(self, limit: int) -> "Documents":
        """All of them; or where they have more than `limit` bytes, those with the lowest keys, about so many bytes."""
        return self.where(self.keys[:, 0] / 2.0**64 < limit / max(self.n_bytes, limit))

    def pieces(self, limit: int = PIECE) -> Iterator[tuple[bytes, bool]]:
        """Every document in pieces of at most `limit` bytes, cut at line ends; and whether it ends its document."""
        return ((data, ends) for _, data, ends in self._pieces(limit))

    def validation(self, fraction: float, nearest: bool = False) -> NDArray[np.bool_]:
        """Which documents validate: in the order of their keys, until the fraction of the bytes is reached.

        With `nearest` the last one stays away where that comes nearer. Those longer than the whole share are passed
        over, so that one giant cannot be most of the split; at least one document is taken and one is left.
        Raises Mistake for a single document.
        """
        if len(self) < 2:
            size = "1 byte" if self.n_bytes == 1 else f"{self.n_bytes} bytes"
            raise Mistake(f"data.corpus: {size} of text cannot be split in two. Choose a longer text.")
        share = fraction * self.n_bytes
        candidates = np.flatnonzero(self.lengths <= max(share, self.lengths.min()))
        order = candidates[np.argsort(self.keys[candidates, 0], kind="stable")]
        sums = np.cumsum(self.lengths[order])
        reached = int(np.searchsorted(sums, share)) + 1
        if nearest and 1 < reached <= len(sums) and share - sums[reached - 2] < sums[reached - 1] - share:
            reached -= 1
        chosen = np.zeros(len(self), dtype=np.bool_)
        chosen[order[: min(reached, len(self) - 1)]] = True
        return chosen

    def _pieces(self, limit: int) -> Iterator[tuple[int, bytes, bool]]:
        with self.path.open("rb") as file:
            for start, length in zip(self.starts, self.lengths, strict=True):
                yield from _cut(file, int(start), int(start + length), limit)


def key(data: bytes) -> bytes:
    """Sixteen bytes drawn from a document's text."""
    return hasher(data).digest()


def hasher(data: bytes = b"") -> "hashlib.blake2b":
    """What draws a document's key from its text, fed piece by piece."""
    return hashlib.blake2b(data, digest_size=16, key=b"labkit document")


def _cut(file: BinaryIO, start: int, stop: int, limit: int) -> Iterator[tuple[int, bytes, bool]]:
    file.seek(start)
    while start < stop:
        data = file.read(min(limit, stop - start))
        if start + len(data) < stop:
            data = data[: _line_end(data)]
            file.seek(start + len(data))
        yield start, data, start + len(data) == stop
        start += len(data)


def _line_end(data: bytes) -> int:
    """The last place to cut: after a line end, or before the last character where there is none."""
    if lines := data.rfind(b"\n") + 1:
        return lines
    last = next(i for i in range(len(data) - 1, -1, -1) if data[i] & 0xC0 != 0x80)
    return last or len(data)
