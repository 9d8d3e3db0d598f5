"""Multi-head latent attention: keys and values are read out of one small vector of each token.

B batch, T time, D width, H heads, d features without position, r rotated features, e features of a value, R gates.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from labkit.components.attention import Attention
from labkit.components.gather import AttentionModule, Heads, Projection
from labkit.components.norm import NoNorm, Norm, Rms
from labkit.components.parameters import Linear, Part, Role
from labkit.components.place import Place
from labkit.components.position import Position
from labkit.components.width import HeadWidth, Width


class Mla(Attention):
    """softmax(q [W_UK c; k_R]ᵀ / √(d + r)) W_UV c, c = norm(W_DKV x), one turned k_R for all (arXiv:2405.04434)."""

    kind: Literal["mla"] = "mla"
    kv_rank: Width | None = None
    """Features of the latent vector c; 4 · head_dim unless given."""
    q_rank: Width | None = None
    """Features of a latent vector for the queries; they are read from x itself unless given (DeepSeek-V2-Lite)."""
    rope_dim: HeadWidth | None = None
    """r, the features beside head_dim that know their position, of one key for all heads; head_dim / 2 unless given."""
    value_dim: HeadWidth | None = None
    """Features of a value; head_dim unless given."""
    latent_norm: Norm = Rms()
    """Of the latent vectors."""

    @property
    def kv_heads(self) -> int:
        return self.n_heads

    def content(self, width: int) -> int:
        """Features of a query or key that know no position."""
        return super().width_of_head(width)

    def width_of_head(self, width: int) -> int:
        return self.rope_dim or self.content(width) // 2

    def widest(self, width: int) -> int:
        return max(self.content(width) + self.width_of_head(width), self.value_dim or 0)

    def fault(self, width: int) -> str | None:
        if fault := super().fault(width):
            return fault
        if not self.width_of_head(width):
            return f"half of head_dim {self.content(width)} leaves rope_dim 0; give rope_dim"
        if not isinstance(self.qk_norm, NoNorm):
            return f"qk_norm {self.qk_norm.label}: mla normalises its latent vectors; set latent_norm instead"
        return None

    def build(self, width: int, place: Place, position: Position, dropout: float) -> nn.Module:
        return LatentAttention(self, width, place, position, dropout)


class LatentAttention(AttentionModule):
    """One product of x gives the latent vectors, the shared rotated key and the gates; the rest is read out of them."""

    def __init__(self, spec: Mla, width: int, place: Place, position: Position, dropout: float) -> None:
        super().__init__()
        self.n_heads, self.content, self.turning = spec.n_heads, spec.content(width), spec.width_of_head(width)
        kv_rank, value_dim = spec.kv_rank or 4 * self.content, spec.value_dim or self.content
        q = self.n_heads * (self.content + self.turning)
        self.gate = spec.gate
        self.latents = Projection(
            width,
            Part(Role.QUERY, spec.q_rank or q, width, "query_latent" if spec.q_rank else "query"),
            Part(Role.KEY, kv_rank, width, "key_value_latent"),
            Part(Role.KEY, self.turning, width, "key_rope"),
            Part(Role.GATE, spec.gate.rows(self.n_heads, value_dim), width, "gate"),
            biased=spec.biased & {"query"} if spec.q_rank is None else (),
        )
        self.query_norm = self.query = nn.Identity()
        if spec.q_rank:
            self.query_norm = spec.latent_norm.build(spec.q_rank, place)
            self.query = Linear(spec.q_rank, Part(Role.QUERY, q, spec.q_rank), has_bias="query" in spec.biased)
        self.key_value_norm = spec.latent_norm.build(kv_rank, place)
        self.key_value = Projection(
            kv_rank,
            Part(Role.KEY, self.n_heads * self.content, kv_rank, "key"),
            Part(Role.VALUE, self.n_heads * value_dim, kv_rank, "value"),
            biased=spec.biased,
        )
        self.rotary = position.rotary(self.turning, place)
        self.mixing = spec.mixing((self.content + self.turning, value_dim), place, position, dropout)
        mixed = self.n_heads * value_dim
        self.output = Linear(mixed, Part(Role.OUTPUT, width, mixed), has_bias=spec.output_bias)

    def heads(self, x_BTD: Tensor, offset: int = 0) -> Heads:
        query, key_value, k_BTr, gate_BTR = self.latents(x_BTD).split(self.latents.sizes, dim=-1)
        q_BTHd, turning_BTHr = (
            self.query(self.query_norm(query)).unflatten(-1, (self.n_heads, -1)).split((self.content, self.turning), -1)
        )
        k_BTN, v_BTN = self.key_value(self.key_value_norm(key_value)).split(self.key_value.sizes, dim=-1)
        turned = self.rotary(torch.cat((turning_BTHr, k_BTr.unsqueeze(2)), dim=2), offset)
        turned_q, turned_k = turned.split((self.n_heads, 1), dim=2)
        q = torch.cat((q_BTHd, turned_q), dim=-1)
        k = torch.cat((k_BTN.unflatten(-1, (self.n_heads, -1)), turned_k.expand_as(turned_q)), dim=-1)
        v = v_BTN.unflatten(-1, (self.n_heads, -1))
        return Heads(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), gate_BTR)

    def mix(self, heads: Heads, offset: int) -> Tensor:
        return self.mixing(*heads[:3], offset)
