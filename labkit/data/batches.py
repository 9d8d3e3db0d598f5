"""Windows of tokens: which ones a training step sees, and which ones judge."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from labkit.data.permutation import permuted_each
from labkit.data.shards import Split
from labkit.spec import Mistake

MIN_CONTEXT = 2
"""The shortest context that a model can have."""

BLOCK = 1024
"""Windows that are drawn at once."""

PADDING = -100
"""Stands where a window has no token: a target that is not scored."""


class Batches:
    """The training batches of a split: a pure function of (split, seed, step), so that resuming needs no state.

    Windows of context + 1 tokens tile the split at a stride of `context`: each token is the target of one. Every epoch
    takes all windows once, in an order drawn from (seed, epoch).
    """

    def __init__(self, split: Split, context: int, batch_size: int, seed: int) -> None:
        """`batch_size` windows a step, over all ranks. Raises Mistake for a split that is shorter than a window."""
        require_window(split, context)
        self.windows = (split.n_tokens - 1) // context
        self._split, self._context, self._batch_size, self._seed = split, context, batch_size, seed
        self._blocks: dict[int, NDArray[np.int64]] = {}

    def train(self, step: int, rank: int = 0, ranks: int = 1) -> NDArray[np.int64]:
        """(rows, context + 1): a rank's slice of the step's batch; the ranks' slices in their order are the batch."""
        first, last = (self._batch_size * r // ranks for r in (rank, rank + 1))
        starts_N = self._drawn(step * self._batch_size + first, last - first) * self._context
        return self._split.rows(starts_N, self._context + 1)

    def epoch(self, step: int) -> float:
        """How often the data was gone through before `step`."""
        return step * self._batch_size / self.windows

    def _drawn(self, position: int, count: int) -> NDArray[np.int64]:
        """The windows at `count` positions of the endless sequence of epochs."""
        first, last = position // BLOCK, (position + max(count, 1) - 1) // BLOCK
        self._blocks = {block: self._block(block) for block in range(first, last + 1)}
        drawn = np.concatenate(list(self._blocks.values()))
        return drawn[position - first * BLOCK :][:count]

    def _block(self, block: int) -> NDArray[np.int64]:
        """Those at BLOCK positions, which takes as long as to draw a few; kept while they are asked for."""
        if block in self._blocks:
            return self._blocks[block]
        epoch, within = divmod(block * BLOCK, self.windows)
        epochs, places = np.divmod(np.arange(within, within + BLOCK), self.windows)
        return permuted_each(places, self.windows, self._seed, epoch, epochs)


def windows(split: Split, length: int, limit: int | None = None, rows: int = 16) -> Iterator[NDArray[np.int64]]:
    """Batches (rows, length + 1) that tile a split: each token but the first is a target exactly once, in order.

    `limit` takes so many windows, evenly spread, always the same. Where the last window ends early it is filled with
    -100, which is no token: as a target it is not scored, and as an input it may be read as any token, since nothing
    scored comes after it. Raises Mistake for a split that is shorter than a window.
    """
    require_window(split, length)
    count = -(-(split.n_tokens - 1) // length)
    chosen = np.arange(count) if limit is None or limit >= count else np.arange(limit) * count // limit
    for at in range(0, len(chosen), rows):
        yield np.stack([_window(split, int(index) * length, length) for index in chosen[at : at + rows]])


def require_window(split: Split, length: int) -> None:
    """Raises Mistake for a split that has no whole window of `length` targets."""
    if split.n_tokens <= length:
        remedies = {"train": " or a smaller data.validation", "validation": " or a larger data.validation"}
        shorter = f", or write a context of at most {split.n_tokens - 1}" if split.n_tokens > MIN_CONTEXT else ""
        has = "1 token" if split.n_tokens == 1 else f"{split.n_tokens} tokens"
        raise Mistake(
            f"data.corpus: the {split.name} split has {has}, fewer than one window of context + 1 = "
            f"{length + 1}. Choose a longer text{remedies.get(split.name, '')}{shorter}."
        )


def _window(split: Split, start: int, length: int) -> NDArray[np.int64]:
    tokens = split.read(start, start + length + 1)
    return np.pad(tokens, (0, length + 1 - len(tokens)), constant_values=PADDING)
