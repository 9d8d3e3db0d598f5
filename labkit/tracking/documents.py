"""What a run scored on each document it was evaluated on: documents.npz in its folder, a few arrays of numpy.

A file that cannot be read counts as none: all that rests on it is the interval over documents, which then says so.
"""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.tracking.atomic import write_bytes
from labkit.tracking.record import Run

VERSION = 1
FIELDS = ("nats", "tokens", "bytes")


@dataclass(frozen=True, eq=False)
class DocumentScores:
    """Sums over the scored tokens of each document, in the order of the split; all of shape (documents,)."""

    nats: NDArray[np.float64]
    tokens: NDArray[np.int64]
    bytes: NDArray[np.int64]
    """UTF-8 bytes of exactly those tokens."""

    def __len__(self) -> int:
        return len(self.nats)


def keep(run: Run, sets: Mapping[str, DocumentScores]) -> None:
    """Put the scores of validation sets on record, by name; equal scores give equal bytes."""
    arrays = {f"{name}/{field}": getattr(scores, field) for name, scores in sets.items() for field in FIELDS}
    stream = io.BytesIO()
    saved: Any = np.savez
    saved(stream, version=np.int64(VERSION), **arrays)
    write_bytes(run.documents, stream.getvalue())


def kept(run: Run) -> dict[str, DocumentScores]:
    """The scores on record by the set's name; empty where there are none that this labkit can read."""
    try:
        with np.load(io.BytesIO(run.documents.read_bytes()), allow_pickle=False) as file:
            if int(file["version"]) != VERSION:
                return {}
            names = dict.fromkeys(key.rpartition("/")[0] for key in file.files if "/" in key)
            return {name: DocumentScores(*(file[f"{name}/{field}"] for field in FIELDS)) for name in names}
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return {}
