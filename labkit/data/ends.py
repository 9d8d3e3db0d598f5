"""Where the documents of a split begin and end."""

import numpy as np
from numpy.typing import NDArray

from labkit.data.shards import Split

CHUNK = 1 << 24
"""Tokens that are looked at together."""


def bounds(split: Split, end: int) -> NDArray[np.int64]:
    """(documents, 2): the first token of each document, and the one after its end token, in the split's order."""
    found, base = [np.empty(0, np.int64)], 0
    for shard in split.shards:
        for at in range(0, len(shard), CHUNK):
            found.append(np.flatnonzero(shard[at : at + CHUNK] == end) + (base + at))
        base += len(shard)
    stops = np.concatenate(found) + 1
    return np.stack([np.append(0, stops[:-1])[: len(stops)], stops], axis=1)


def spans(split: Split, end: int, length: int, limit: int) -> NDArray[np.int64]:
    """Where spans of `length` targets begin that lie each within one document and do not overlap, ascending.

    A span takes `length` + 1 tokens, the first of which is no target. At most `limit` of them, evenly spread.
    """
    starts_D, stops_D = bounds(split, end).T
    counts_D = (stops_D - starts_D - 1) // length
    within = np.arange(counts_D.sum()) - np.repeat(np.cumsum(counts_D) - counts_D, counts_D)
    begun = np.repeat(starts_D, counts_D) + within * length
    return begun if len(begun) <= limit else begun[np.arange(limit) * len(begun) // limit]
