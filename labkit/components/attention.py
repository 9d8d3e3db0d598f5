"""Causal self-attention: how many heads read, how many keys and values they share.

B batch, T time, D width, H heads, K key-value heads, d head_dim.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.components.dropout import KeyedDropout
from labkit.components.parameters import Linear, Part, Role
from labkit.components.place import Place
from labkit.components.position import Position
from labkit.spec import Choice, Size

WIDEST = 2**24
"""Features of all heads together, at most: a matrix of more is a slip of the pen."""


class Attention(Choice):
    """How each token gathers from the tokens before it."""

    n_heads: Size
    head_dim: Size | None = None
    """Features of a head; d_model / n_heads unless given."""
    bias: bool = False
    """A bias on q, k and v."""
    output_bias: bool = False

    @property
    def kv_heads(self) -> int:
        """How many heads of keys and values there are."""
        raise NotImplementedError

    def width_of_head(self, width: int) -> int:
        return self.head_dim or width // self.n_heads

    def fault(self, width: int) -> str | None:
        """Why this cannot work at that width, or None."""
        if self.head_dim is None and width % self.n_heads:
            return f"n_heads {self.n_heads} does not divide d_model {width}; choose a divisor, or give head_dim"
        if (features := self.n_heads * self.width_of_head(width)) > WIDEST:
            return f"n_heads times head_dim are {features:,} features; write at most {WIDEST:,}"
        if self.n_heads % self.kv_heads:
            return f"n_kv_heads {self.kv_heads} does not divide n_heads {self.n_heads}; choose a divisor"
        return None

    def build(self, width: int, place: Place, position: Position, dropout: float) -> nn.Module:
        """A module x_BTD -> x_BTD."""
        return SelfAttention(self, width, place, position, dropout)


class Mha(Attention):
    """softmax(q kᵀ / √d) v in each of n_heads heads (arXiv:1706.03762)."""

    kind: Literal["mha"] = "mha"

    @property
    def kv_heads(self) -> int:
        return self.n_heads


class Gqa(Attention):
    """Groups of query heads share one head of keys and values (arXiv:2305.13245)."""

    kind: Literal["gqa"] = "gqa"
    n_kv_heads: Size

    @property
    def kv_heads(self) -> int:
        return self.n_kv_heads


class Mqa(Attention):
    """All query heads share one head of keys and values (arXiv:1911.02150)."""

    kind: Literal["mqa"] = "mqa"

    @property
    def kv_heads(self) -> int:
        return 1


class SelfAttention(nn.Module):
    """One product gives q, k and v; they are read where it left them."""

    def __init__(self, spec: Attention, width: int, place: Place, position: Position, dropout: float) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = spec.n_heads, spec.kv_heads, spec.width_of_head(width)
        q, kv = self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        self.qkv = Linear(
            width,
            Part(Role.QUERY, q, width, "query"),
            Part(Role.KEY, kv, width, "key"),
            Part(Role.VALUE, kv, width, "value"),
            has_bias=spec.bias,
        )
        self.rotary = position.rotary(self.head_dim, place)
        self.dropout = KeyedDropout(dropout)
        self.output = Linear(q, Part(Role.OUTPUT, width, q), has_bias=spec.output_bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        qkv_BTHd = self.qkv(x_BTD).unflatten(-1, (-1, self.head_dim))
        qk_BTHd, v_BTKd = qkv_BTHd.split((self.n_heads + self.n_kv_heads, self.n_kv_heads), dim=2)
        q_BTHd, k_BTKd = self.rotary(qk_BTHd).split((self.n_heads, self.n_kv_heads), dim=2)
        mixed_BHTd = self.mix(q_BTHd.transpose(1, 2), k_BTKd.transpose(1, 2), v_BTKd.transpose(1, 2))
        return self.output(mixed_BHTd.transpose(1, 2).flatten(2))

    def mix(self, q_BHTd: Tensor, k_BKTd: Tensor, v_BKTd: Tensor) -> Tensor:
        if self.training and self.dropout.rate > 0.0:
            return self.mix_with_dropout(q_BHTd, k_BKTd, v_BKTd)
        grouped = self.n_kv_heads < self.n_heads
        return F.scaled_dot_product_attention(q_BHTd, k_BKTd, v_BKTd, is_causal=True, enable_gqa=grouped)

    def mix_with_dropout(self, q_BHTd: Tensor, k_BKTd: Tensor, v_BKTd: Tensor) -> Tensor:
        """The same with keyed dropout on the probabilities, which no fused attention of torch's can take."""
        q_BKGTd = q_BHTd.unflatten(1, (self.n_kv_heads, -1))
        scores = (q_BKGTd @ k_BKTd.unsqueeze(2).mT) * self.head_dim**-0.5
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        weights = self.dropout(scores.masked_fill(future, -torch.inf).softmax(-1)).to(v_BKTd.dtype)
        return (weights @ v_BKTd.unsqueeze(2)).flatten(1, 2)

    def flops(self, length: int) -> int:
        """Of q kᵀ and the product with v, forward, per token: half of length², since attention is causal."""
        return 2 * length * self.n_heads * self.head_dim
