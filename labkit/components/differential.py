"""Differential attention: what two maps have in common is taken out.

B batch, T time, H heads, d features of a query or key, of which a head has two, e = 2d features of its value.
"""

import math
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from labkit.components.attention import Attention
from labkit.components.gather import AttentionModule, Heads, Projection
from labkit.components.norm import Norm, Rms
from labkit.components.parameters import Linear, Part, Role, key, parameter
from labkit.components.place import Place
from labkit.components.position import Position


class Differential(Attention):
    """(1 - λ₀) norm((softmax(q₁k₁ᵀ/√d) - λ softmax(q₂k₂ᵀ/√d)) v), λ = e^(a₁·b₁) - e^(a₂·b₂) + λ₀ (arXiv:2410.05258)."""

    kind: Literal["differential"] = "differential"
    head_norm: Norm = Rms(eps=1e-5)
    """Of what each head gathers."""

    @property
    def kv_heads(self) -> int:
        return self.n_heads

    def width_of_head(self, width: int) -> int:
        return self.head_dim or width // (2 * self.n_heads)

    def widest(self, width: int) -> int:
        return 2 * self.width_of_head(width)

    def fault(self, width: int) -> str | None:
        if self.head_dim is None and width % (2 * self.n_heads):
            heads = f"2 · n_heads {self.n_heads}"
            return f"{heads} does not divide d_model {width}; choose half of a divisor, or give head_dim"
        return super().fault(width)

    def build(self, width: int, place: Place, position: Position, dropout: float) -> nn.Module:
        return DifferentialAttention(self, width, place, position, dropout)


class DifferentialAttention(AttentionModule):
    """Queries and keys lie in pairs, one for each map; both maps read the same values."""

    def __init__(self, spec: Differential, width: int, place: Place, position: Position, dropout: float) -> None:
        super().__init__()
        self.n_heads, self.head_dim = spec.n_heads, spec.width_of_head(width)
        rows, value_dim = 2 * self.n_heads * self.head_dim, 2 * self.head_dim
        self.gate = spec.gate
        self.qkv = Projection(
            width,
            Part(Role.QUERY, rows, width, "query"),
            Part(Role.KEY, rows, width, "key"),
            Part(Role.VALUE, rows, width, "value"),
            Part(Role.GATE, spec.gate.rows(self.n_heads, value_dim), width, "gate"),
            biased=spec.biased,
        )
        self.qk_norm = spec.normalising((2 * self.n_heads, 2 * self.n_heads), self.head_dim, place)
        self.rotary = position.rotary(self.head_dim, place)
        self.first = spec.mixing((self.head_dim, value_dim), place, position, dropout)
        self.second = spec.mixing((self.head_dim, value_dim), place, position, dropout)
        self.balance = Balance(self.head_dim, place.layer)
        self.head_norm = spec.head_norm.build(value_dim, place)
        self.output = Linear(rows, Part(Role.OUTPUT, width, rows), has_bias=spec.output_bias)

    def heads(self, x_BTD: Tensor, offset: int = 0) -> Heads:
        q, k, v, gates = self.qkv.sizes
        qk_BTN, v_BTN, gate_BTR = self.qkv(x_BTD).split((q + k, v, gates), dim=-1)
        qk_BTHd = qk_BTN.unflatten(-1, (-1, self.head_dim))
        q_BTHd, k_BTHd = self.qk_norm(qk_BTHd, partial(self.rotary, offset=offset))
        v_BTHe = v_BTN.unflatten(-1, (self.n_heads, -1))
        return Heads(q_BTHd.transpose(1, 2), k_BTHd.transpose(1, 2), v_BTHe.transpose(1, 2), gate_BTR)

    def mix(self, heads: Heads, offset: int) -> Tensor:
        (q1, q2), (k1, k2) = (x_BHTd.unflatten(1, (-1, 2)).unbind(2) for x_BHTd in heads[:2])
        common = self.second(q2, k2, heads.v, offset)
        mixed_BHTe = self.first(q1, k1, heads.v, offset) - self.balance().to(common.dtype) * common
        return self.head_norm(mixed_BHTe) * (1 - self.balance.start)


class Balance(nn.Module):
    """λ = exp(a₁·b₁) - exp(a₂·b₂) + λ₀ with λ₀ = 0.8 - 0.6 exp(-0.3 (l - 1)) in layer l, counted from 1.

    The vectors start from N(0, 0.1²), alike for every seed: being vectors, they are not drawn by `Init`, nor decayed.
    """

    def __init__(self, head_dim: int, layer: int) -> None:
        super().__init__()
        self.start = 0.8 - 0.6 * math.exp(-0.3 * layer)
        self.query_1, self.key_1, self.query_2, self.key_2 = (
            self.vector(head_dim, key("balance", name, layer)) for name in ("query_1", "key_1", "query_2", "key_2")
        )

    def vector(self, width: int, seed: int) -> nn.Parameter:
        generator = torch.Generator("cpu").manual_seed(seed)
        values = torch.empty(width, device="cpu").normal_(0.0, 0.1, generator=generator)
        return parameter(values.to(torch.get_default_device()), Part(Role.GAIN, width, fan_in=width))

    def forward(self) -> Tensor:
        return (self.query_1 @ self.key_1).exp() - (self.query_2 @ self.key_2).exp() + self.start
