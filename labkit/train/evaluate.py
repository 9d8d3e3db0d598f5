"""Losses on the validation split: in nats a token, in bits a byte, by position, beyond the training length.

B batch, T time.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labkit.data import Store, windows
from labkit.model import IGNORED, Transformer
from labkit.train.run import RunSpec


def multiples(spec: RunSpec, store: Store) -> list[int]:
    """Those multiples of the training length that the model can read and that tile a span the split has room for."""
    context, reach = spec.model.context, math.inf if spec.model.reach is None else spec.model.reach
    kept: list[int] = []
    for multiple in sorted(set(spec.evaluation.beyond)):
        if multiple * context <= reach and math.lcm(*kept, multiple) * context < store.val.n_tokens:
            kept.append(multiple)
    return kept


class Score:
    """Sums over scored tokens, kept on the device; padding is not scored."""

    def __init__(self, length: int, device: torch.device) -> None:
        self.nats_T = torch.zeros(length, dtype=torch.float64, device=device)
        self.tokens_T = torch.zeros(length, dtype=torch.int64, device=device)
        self.bytes = torch.zeros((), dtype=torch.int64, device=device)

    def add(self, losses_BT: Tensor, scored_BT: Tensor, bytes_BT: Tensor) -> None:
        self.nats_T += losses_BT.double().sum(0)
        self.tokens_T += scored_BT.sum(0)
        self.bytes += (bytes_BT * scored_BT).sum()

    @property
    def loss(self) -> float:
        """The mean over the scored tokens, in nats."""
        return (self.nats_T.sum() / self.tokens_T.sum()).item()

    @property
    def bits_per_byte(self) -> float:
        """The nats of the scored tokens over the UTF-8 bytes of exactly those tokens, in bits."""
        return (self.nats_T.sum() / self.bytes).item() / math.log(2)

    def by_position(self) -> dict[str, list[Any]]:
        """The mean loss where n tokens of context are given, n in [1, 2), [2, 4), …, the last bin up to and with T."""
        length = len(self.nats_T)
        edges = [2**k for k in range(length.bit_length()) if 2**k < length] + [length]
        ends = [edge - 1 for edge in edges[1:-1]] + [length]
        nats, tokens = self.nats_T.tolist(), self.tokens_T.tolist()
        bins = list(zip([0, *ends], ends, strict=False))
        means = [sum(nats[a:b]) / max(1, sum(tokens[a:b])) for a, b in bins]
        return {"edges": edges, "loss": means}


class Evaluator:
    """Measures one model as its run spec says, on at most `rows` · context tokens at once.

    Raises Mistake for a validation split that is shorter than a window.
    """

    def __init__(self, model: Transformer, spec: RunSpec, store: Store, rows: int, device: torch.device) -> None:
        self.model, self.spec, self.store, self.device = model, spec, store, device
        self.tokens = rows * spec.model.context
        next(windows(store.val, spec.model.context, limit=1))
        self.token_bytes = torch.from_numpy(store.token_bytes).to(device)

    def on_the_way(self) -> dict[str, float]:
        """On the fixed windows."""
        score = self.score(self.spec.model.context, self.spec.evaluation.windows)
        return {"val/loss": score.loss, "val/bpb": score.bits_per_byte}

    def at_the_end(self) -> tuple[dict[str, float], dict[str, list[Any]]]:
        """On the whole split, with the loss by position; and beyond the training length."""
        score = self.score(self.spec.model.context)
        values = {"val/loss": score.loss, "val/bpb": score.bits_per_byte}
        return values | self.beyond(), score.by_position()

    def beyond(self) -> dict[str, float]:
        """The loss of the same targets, about as many as on the way, in contexts of 1, 2, 4, … training lengths."""
        asked, context = multiples(self.spec, self.store), self.spec.model.context
        if not asked:
            return {}
        longest = math.lcm(*asked)
        limit = max(1, self.spec.evaluation.windows // longest)
        spans = list(windows(self.store.val, longest * context, limit, rows=1))
        return {f"val/loss_x{m}": self._scored(m * context, cut(spans, m * context)).loss for m in (1, *asked)}

    def score(self, length: int, limit: int | None = None) -> Score:
        """Over windows of a length that tile the split, each target scored once."""
        return self._scored(length, windows(self.store.val, length, limit, rows=max(1, self.tokens // length)))

    def _scored(self, length: int, batches: Iterable[NDArray[np.int64]]) -> Score:
        score = Score(length, self.device)
        self.model.eval()
        with torch.no_grad():
            for batch in batches:
                tokens_BT = torch.from_numpy(batch).to(self.device)
                given_BT, targets_BT = tokens_BT[:, :-1], tokens_BT[:, 1:]
                losses_BT = self.model.losses(given_BT.clamp(min=0), targets_BT)
                score.add(losses_BT, targets_BT != IGNORED, self.token_bytes[targets_BT.clamp(min=0)])
        self.model.train()
        return score


def cut(spans: Iterable[NDArray[np.int64]], length: int) -> Iterable[NDArray[np.int64]]:
    """The windows of `length` targets that tile each span (rows, n · length + 1): the same targets for any length."""
    for span in spans:
        starts = range(0, span.shape[1] - 1, length)
        yield np.concatenate([span[:, start : start + length + 1] for start in starts])
