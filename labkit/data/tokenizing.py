"""Documents become tokens at the speed of the tokenizer, and every byte of them is accounted for."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.data.documents import Documents
from labkit.data.encoding import Encoder
from labkit.data.shards import ShardWriter, dtype_for
from labkit.data.store import lengths_of
from labkit.spec import Mistake
from labkit.tracking.progress import Progress

BATCH = 2 << 20
"""Bytes that are encoded together, about: enough for many threads."""

AHEAD = 2
"""Batches on their way at once: one is encoded by the library's own threads while another one's tokens are fetched."""

TRAINING = 1 << 30
"""Bytes that a tokenizer is trained on, about, at most: more would change few merges and take memory."""


def training_texts(documents: Documents, progress: Progress) -> Iterator[str]:
    """The documents to train a tokenizer on, in pieces."""
    sample = documents.sample(TRAINING)
    with progress.task("training the tokenizer", sample.n_bytes, "B") as advance:
        for piece, _ in sample.pieces():
            yield piece.decode()
            advance(len(piece))


def tokenize(documents: Documents, encoder: Encoder, folder: Path, name: str, progress: Progress) -> dict[str, Any]:
    """Write a split, each document ended by the end token; gives what the store says of it. Raises Mistake.

    A document of more than `documents.PIECE` bytes is encoded in pieces, which keeps memory flat.
    """
    spelling = Spelling(encoder.vocabulary)
    dtype = dtype_for(len(encoder.vocabulary))
    n_tokens = n_bytes = 0
    with (
        progress.task(f"tokenizing the {name} split", documents.n_bytes, "B") as advance,
        ShardWriter(folder, name, dtype) as writer,
    ):
        for batch, ids, counts in _encoded(documents, encoder):
            stops = np.cumsum(counts)
            n_bytes += _accounted(batch, spelling(ids, stops), encoder)
            ended = np.insert(ids.astype(dtype), stops[[ends for _, ends in batch]], encoder.end)
            writer.append(ended)
            n_tokens += len(ended)
            advance(sum(len(piece) for piece, _ in batch))
    return {"documents": len(documents), "tokens": n_tokens, "bytes": n_bytes, "shards": writer.shards}


Batch = list[tuple[bytes, bool]]


def _encoded(documents: Documents, encoder: Encoder) -> Iterator[tuple[Batch, NDArray[Any], NDArray[np.int64]]]:
    """Every batch with its tokens and the number of each piece's, in order, encoded a little ahead."""
    pending: deque[tuple[Batch, Future[tuple[NDArray[Any], NDArray[np.int64]]]]] = deque()
    with ThreadPoolExecutor(AHEAD) as pool:
        for batch in _batches(documents.pieces()):
            pending.append((batch, pool.submit(encoder.encode, [piece for piece, _ in batch])))
            if len(pending) > AHEAD:
                done, future = pending.popleft()
                yield done, *future.result()
        for done, future in pending:
            yield done, *future.result()


def _batches(pieces: Iterable[tuple[bytes, bool]]) -> Iterator[Batch]:
    batch: Batch = []
    size = 0
    for piece, ends in pieces:
        batch.append((piece, ends))
        size += len(piece)
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Spelling:
    """What tokens stand for, many at once."""

    def __init__(self, vocabulary: list[bytes]) -> None:
        self.sizes = lengths_of(vocabulary)
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.letters = np.frombuffer(b"".join(vocabulary), np.uint8)

    def __call__(self, ids: NDArray[Any], stops: NDArray[np.int64]) -> list[bytes]:
        """The bytes of the tokens up to each stop, from the one before."""
        sizes = self.sizes[ids]
        ends = np.cumsum(sizes)
        shift = np.repeat(self.starts[ids] - (ends - sizes), sizes)
        written = self.letters[shift + np.arange(len(shift))].tobytes()
        places = np.append(0, ends)[stops].tolist()
        return [written[start:stop] for start, stop in zip([0, *places], places, strict=False)]


def _accounted(batch: Batch, written: list[bytes], encoder: Encoder) -> int:
    """The bytes of a batch's tokens, which are its text: a model is scored on the text that it saw."""
    for (piece, _), found in zip(batch, written, strict=True):
        if found != piece and found != (normal := encoder.normal(piece)):
            raise Mistake(_changed(normal, found))
    return sum(map(len, written))


def _changed(text: bytes, found: bytes) -> str:
    here, there = text.decode(), found.decode(errors="replace")
    at = next((n for n, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), min(len(here), len(there)))
    return (
        f"tokenizer.path: this tokenizer changes the text: {here[at : at + 20]!r} after {here[max(at - 20, 0) : at]!r} "
        f"comes back as {there[at : at + 20]!r}, so the model would be scored on a text that it never sees. Choose a "
        "byte-level tokenizer that adds, removes and rewrites nothing, as GPT-2's and Llama 3's are."
    )
