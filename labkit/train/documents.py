"""Losses told apart by the document that each scored token belongs to."""

import numpy as np

from labkit.data.batches import PADDING
from labkit.tracking.documents import DocumentScores
from labkit.train.score import Losses, Tokens


class ByDocument:
    """Sums over the scored tokens of each document, over windows that tile a split in order.

    An end token counts to the document that it ends; the split's first token is nobody's target.
    """

    def __init__(self, documents: int, token_bytes: Tokens, end: int) -> None:
        self.token_bytes, self.end = token_bytes, end
        self.scores = DocumentScores(np.zeros(documents), np.zeros(documents, np.int64), np.zeros(documents, np.int64))
        self.at = 0
        """The document that the next target belongs to."""

    def add(self, losses_BT: Losses, tokens_BT: Tokens) -> None:
        targets_BT = tokens_BT[:, 1:]
        scored_BT = targets_BT != PADDING
        targets_N, nats_N = targets_BT[scored_BT], losses_BT[scored_BT]
        ended_N = targets_N == self.end
        index_N = np.cumsum(ended_N) - ended_N
        place = slice(self.at, self.at + int(index_N.max(initial=0)) + 1)
        self.scores.nats[place] += np.bincount(index_N, nats_N)
        self.scores.tokens[place] += np.bincount(index_N)
        self.scores.bytes[place] += np.bincount(index_N, self.token_bytes[targets_N]).astype(np.int64)
        self.at += int(ended_N.sum())
