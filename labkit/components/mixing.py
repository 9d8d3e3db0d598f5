"""What queries take from keys and values: scores, masks, softmax, and the product with the values.

B batch, T queries, S keys, H heads of queries, K heads of keys and values, d features of a key, e of a value.
"""

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from labkit.components.bias import NoBias, ScoreBias
from labkit.components.dropout import KeyedDropout
from labkit.components.parameters import Part, Role, parameter
from labkit.kernels import Scores, attend, attends, readable
from labkit.spec import Number

Cap = Annotated[Number, Field(ge=1e-3, le=1e9)]
"""c of c · tanh(x / c): a smaller one leaves nothing of x, and with a larger one x / c loses its digits."""


class Softmax(nn.Module):
    """exp(s) / Σ exp(s) over the keys."""

    def forward(self, scores_BHTS: Tensor) -> Tensor:
        return scores_BHTS.softmax(-1)

    def sinks(self) -> Tensor | None:
        """A logit of each head that belongs to no key."""
        return None


class SinkSoftmax(Softmax):
    """exp(s) / (exp(sink) + Σ exp(s)): a learned logit of each head takes what no key deserves."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.sink = parameter(torch.zeros(n_heads), Part(Role.BIAS, n_heads, 1))

    def forward(self, scores_BHTS: Tensor) -> Tensor:
        sink_BHT1 = self.sink.to(scores_BHTS.dtype)[:, None, None].expand(*scores_BHTS.shape[:-1], 1)
        return torch.cat((scores_BHTS, sink_BHT1), dim=-1).softmax(-1)[..., :-1]

    def sinks(self) -> Tensor:
        return self.sink


class Mixing(nn.Module):
    """softmax(cap(scale · q kᵀ) + bias) v over the keys that each query sees: the last `window` up to itself."""

    def __init__(
        self,
        heads: tuple[int, int],
        features: tuple[int, int],
        *,
        scale: float,
        softcap: float,
        window: float,
        softmax: Softmax,
        bias: ScoreBias,
        dropout: float,
    ) -> None:
        """`heads` (H, K); `features` (d, e); no cap and no window are infinite ones."""
        super().__init__()
        (self.n_heads, self.n_kv_heads), self.features = heads, features
        self.scale, self.softcap, self.window = scale, softcap, window
        self.softmax, self.bias, self.dropout = softmax, bias, KeyedDropout(dropout)

    def forward(self, q_BHTd: Tensor, k_BKSd: Tensor, v_BKSe: Tensor, offset: int = 0) -> Tensor:
        """Gives mixed_BHTe. Query t stands where key `offset` + t does, so earlier keys may come from a cache."""
        q_BTHd, k_BSKd, v_BSKe = (x.transpose(1, 2) for x in (q_BHTd, k_BKSd, v_BKSe))
        scores = self.scores() if offset == 0 else None
        if scores is not None and attends(q_BTHd, k_BSKd, v_BSKe, scores):
            return attend(q_BTHd, k_BSKd, v_BSKe, scores).transpose(1, 2)
        if self.is_plain and not self.drops:
            return self.fused(q_BHTd, k_BKSd, v_BKSe, offset)
        return self.reference(q_BHTd, k_BKSd, v_BKSe, offset)

    def scores(self) -> Scores | None:
        """What it computes, as labkit's kernels take it; None where they cannot."""
        if self.drops:
            return None
        window = None if self.window == math.inf else int(self.window)
        softcap = None if self.softcap == math.inf else self.softcap
        return self.bias.told(Scores(self.scale, window, softcap, self.softmax.sinks()))

    @property
    def drops(self) -> bool:
        """Whether probabilities are dropped, now."""
        return self.training and self.dropout.rate > 0.0

    @property
    def is_plain(self) -> bool:
        """Whether torch's fused attention computes exactly this, but for dropout."""
        return self.softcap == math.inf and type(self.softmax) is Softmax and isinstance(self.bias, NoBias)

    def fused(self, q_BHTd: Tensor, k_BKSd: Tensor, v_BKSe: Tensor, offset: int) -> Tensor:
        """Torch's own; it needs a mask only for a window that closes, and for several queries after cached keys."""
        queries, keys = q_BHTd.shape[2], k_BKSd.shape[2]
        is_causal = offset == 0 and queries == keys <= self.window
        sees_all = queries == 1 and keys == offset + 1 <= self.window
        mask_TS = None if is_causal or sees_all else ~self.hidden(distances(queries, keys, offset, q_BHTd.device))
        grouped = self.n_kv_heads < self.n_heads
        if q_BHTd.is_cuda:  # its kernels read 16 bytes at a time, and do not look where rows begin
            q_BHTd, k_BKSd, v_BKSe = (readable(x) for x in (q_BHTd, k_BKSd, v_BKSe))
        return F.scaled_dot_product_attention(
            q_BHTd, k_BKSd, v_BKSe, mask_TS, is_causal=is_causal, scale=self.scale, enable_gqa=grouped
        )

    def reference(self, q_BHTd: Tensor, k_BKSd: Tensor, v_BKSe: Tensor, offset: int) -> Tensor:
        """Every step written out, in fp32 or better: what a fused kernel has to equal."""
        distance_TS = distances(q_BHTd.shape[2], k_BKSd.shape[2], offset, q_BHTd.device)
        scores_BHTS = self.grouped(q_BHTd, k_BKSd.mT)
        scores_BHTS = scores_BHTS.to(torch.promote_types(scores_BHTS.dtype, torch.float32)) * self.scale
        scores_BHTS = self.bias.added(capped(scores_BHTS, self.softcap), distance_TS)
        weights_BHTS = self.softmax(scores_BHTS.masked_fill(self.hidden(distance_TS), -torch.inf))
        return self.grouped(self.dropout(weights_BHTS).to(v_BKSe.dtype), v_BKSe)

    def grouped(self, x_BHTm: Tensor, y_BKmn: Tensor) -> Tensor:
        """x y, each head of y for all H / K heads of x that share it, and never repeated."""
        x_BKNm = x_BHTm.unflatten(1, (self.n_kv_heads, -1)).flatten(2, 3)
        return (x_BKNm @ y_BKmn).unflatten(2, (-1, x_BHTm.shape[2])).flatten(1, 2)

    def hidden(self, distance_TS: Tensor) -> Tensor:
        """Which keys a query must not see: those after it, and those before its window."""
        after_TS = distance_TS < 0
        return after_TS if self.window == math.inf else after_TS | (distance_TS >= self.window)

    def flops(self, length: int) -> int:
        """Of q kᵀ and the product with v, forward, per token: of length² the half, or the band, that is seen."""
        window = int(min(self.window, length))
        return self.n_heads * sum(self.features) * window * (2 * length - window) // length


def distances(queries: int, keys: int, offset: int, device: torch.device) -> Tensor:
    """How many tokens each key lies before each query, (T, S)."""
    return torch.arange(offset, offset + queries, device=device)[:, None] - torch.arange(keys, device=device)


def capped(scores: Tensor, cap: float) -> Tensor:
    """cap · tanh(scores / cap); an infinite cap changes nothing."""
    return scores if cap == math.inf else cap * torch.tanh(scores / cap)
