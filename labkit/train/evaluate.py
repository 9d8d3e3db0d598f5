"""Losses on the validation split: in nats a token, in bits a byte, by position, beyond the training length.

B batch, T time.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labkit.data import Store, windows
from labkit.model import Transformer
from labkit.train.execution import Eager
from labkit.train.run import RunSpec
from labkit.train.score import Score, Scorer, scorer_on


def multiples(spec: RunSpec, store: Store) -> list[int]:
    """Those multiples of the training length that the model can read and that tile a span the split has room for."""
    context, reach = spec.model.context, math.inf if spec.model.reach is None else spec.model.reach
    kept: list[int] = []
    for multiple in sorted(set(spec.evaluation.beyond)):
        if multiple * context <= reach and math.lcm(*kept, multiple) * context < store.val.n_tokens:
            kept.append(multiple)
    return kept


class Evaluator:
    """Measures one model as its run spec says, on at most `rows` · context tokens at once.

    Raises Mistake for a validation split that is shorter than a window.
    """

    def __init__(
        self,
        model: Transformer,
        spec: RunSpec,
        store: Store,
        *,
        rows: int,
        device: torch.device,
        execution: Eager,
    ) -> None:
        self.model, self.spec, self.store = model, spec, store
        next(windows(store.val, spec.model.context, limit=1))
        self.token_bytes = torch.from_numpy(store.token_bytes).to(device)
        self.scorer = scorer_on(
            model,
            self.token_bytes,
            spec.model.context,
            rows=rows,
            often=spec.evaluation.windows,
            execution=execution,
        )

    def on_the_way(self) -> dict[str, float]:
        """On the fixed windows."""
        score = self.score(self.spec.evaluation.windows)
        return {"val/loss": score.loss, "val/bpb": score.bits_per_byte}

    def at_the_end(self) -> tuple[dict[str, float], dict[str, list[Any]]]:
        """On the whole split, with the loss by position; and beyond the training length."""
        score = self.score()
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
        losses: dict[str, float] = {}
        for multiple in (1, *asked):
            length = multiple * context
            scorer = Scorer(self.model, self.token_bytes, length, longest // multiple)
            losses[f"val/loss_x{multiple}"] = self._scored(scorer, cut(spans, length)).loss
        return losses

    def score(self, limit: int | None = None) -> Score:
        """Over windows of the training length that tile the split, each target scored once."""
        return self._scored(self.scorer, windows(self.store.val, self.spec.model.context, limit, self.scorer.rows))

    def _scored(self, scorer: Scorer, batches: Iterable[NDArray[np.int64]]) -> Score:
        self.model.eval()
        with torch.no_grad():
            score = scorer.score(batches)
        self.model.train()
        return score


def cut(spans: Iterable[NDArray[np.int64]], length: int) -> Iterable[NDArray[np.int64]]:
    """The windows of `length` targets that tile each span (rows, n · length + 1): the same targets for any length."""
    for span in spans:
        starts = range(0, span.shape[1] - 1, length)
        yield np.concatenate([span[:, start : start + length + 1] for start in starts])
