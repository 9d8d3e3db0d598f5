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
    sizes = lengths_of(encoder.vocabulary)
    dtype = dtype_for(len(sizes))
    n_tokens = n_bytes = 0
    with (
        progress.task(f"tokenizing the {name} split", documents.n_bytes, "B") as advance,
        ShardWriter(folder, name, dtype) as writer,
    ):
        for batch, ids, counts in _encoded(documents, encoder):
            stops = np.cumsum(counts)
            n_bytes += _accounted(batch, np.diff(np.append(0, np.cumsum(sizes[ids]))[stops], prepend=0), encoder)
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


def _accounted(batch: Batch, sizes: NDArray[np.int64], encoder: Encoder) -> int:
    """The bytes of a batch's tokens, which are those of its text, or bits per byte would be wrong."""
    wanted = np.fromiter((len(piece) for piece, _ in batch), np.int64, len(batch))
    for index in np.flatnonzero(sizes != wanted).tolist():
        piece = batch[index][0]
        if sizes[index] != len(encoder.normal(piece)):
            raise Mistake(
                f"tokenizer: this tokenizer changes the text: {len(piece)} bytes that begin with "
                f"{piece[:40].decode(errors='replace')!r} come back as {sizes[index]}, so that bits per byte would be "
                "wrong. Choose a byte-level tokenizer that adds and removes nothing, as GPT-2's and Llama 3's are."
            )
    return int(sizes.sum())
