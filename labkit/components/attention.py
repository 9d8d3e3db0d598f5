"""Causal self-attention: how many heads read, how many keys and values they share.

B batch, T time, D width, H heads, K key-value heads, d head_dim, R gates.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Literal

from torch import Tensor, nn

from labkit.components.gather import AttentionModule, Gate, Heads, NoGate, Projection
from labkit.components.mixing import Cap, Mixing, SinkSoftmax, Softmax
from labkit.components.norm import NoNorm, Norm
from labkit.components.parameters import Linear, Part, Role
from labkit.components.place import Place
from labkit.components.position import Position, Unplaced
from labkit.components.qk_norm import NormAfter, NormBefore, QkNorm
from labkit.components.rotary import Rotary
from labkit.components.score_scale import InverseRoot, ScoreScale
from labkit.components.width import HeadCount, HeadWidth
from labkit.kernels import attend_packed, attends_packed, cudnn_is_faster
from labkit.spec import Choice, Count

WIDEST = 2**24
"""Features of all heads together, at most: a matrix of more is a slip of the pen."""


class Attention(Choice):
    """How each token gathers from the tokens before it."""

    n_heads: HeadCount
    head_dim: HeadWidth | None = None
    """Features of a head; d_model / n_heads unless given."""
    bias: bool = False
    """A bias on q, k and v."""
    output_bias: bool = False
    """A bias on the projection back to the stream."""
    query_bias: bool | None = None
    """A bias on q; as `bias` says unless given."""
    key_bias: bool | None = None
    """A bias on k; as `bias` says unless given."""
    value_bias: bool | None = None
    """A bias on v; as `bias` says unless given."""
    qk_norm: Norm = NoNorm()
    """Of queries and keys (arXiv:2010.04245)."""
    qk_norm_over: Literal["head", "all_heads"] = "head"
    """What shares one norm: the features of each head (Qwen 3, Gemma 3), or of all heads together (OLMo 2)."""
    qk_norm_place: Literal["before_position", "after_position"] = "before_position"
    """Whether queries and keys are normalised before or after they are rotated."""
    scale: ScoreScale = InverseRoot()
    """What the scores are multiplied by."""
    softcap: Cap | None = None
    """c of c · tanh(score / c), which bounds the scaled scores (Gemma 2, arXiv:2408.00118)."""
    window: Count | None = None
    """How many tokens each sees, itself included (arXiv:2004.05150); all before it unless given."""
    sinks: bool = False
    """A learned logit for each head in the softmax's denominator (gpt-oss, arXiv:2508.10925; arXiv:2309.17453)."""
    gate: Gate = NoGate()
    """What scales the gathered values."""

    @property
    def kv_heads(self) -> int:
        """How many heads of keys and values there are."""
        raise NotImplementedError

    def idle(self) -> Mapping[str, str]:
        own = (self.query_bias, self.key_bias, self.value_bias)
        unnormed = dict.fromkeys(("qk_norm_over", "qk_norm_place"), "where qk_norm is none; leave it out")
        return (unnormed if isinstance(self.qk_norm, NoNorm) else {}) | (
            {} if None in own else {"bias": "where query_bias, key_bias and value_bias are all given; leave it out"}
        )

    def width_of_head(self, width: int) -> int:
        """Features of a query or key that its position may turn."""
        return self.head_dim or width // self.n_heads

    def widest(self, width: int) -> int:
        """Features of a head's query, key or value, of that which has most."""
        return self.width_of_head(width)

    @property
    def biased(self) -> set[str]:
        """Which of query, key and value have a bias."""
        own = {"query": self.query_bias, "key": self.key_bias, "value": self.value_bias}
        return {name for name, has_bias in own.items() if (self.bias if has_bias is None else has_bias)}

    def fault(self, width: int) -> str | None:
        """Why this cannot work at that width, or None."""
        if self.head_dim is None and width % self.n_heads:
            return f"n_heads {self.n_heads} does not divide d_model {width}; choose a divisor, or give head_dim"
        if (features := self.n_heads * self.widest(width)) > WIDEST:
            return f"n_heads times head_dim are {features:,} features; write at most {WIDEST:,}"
        if self.n_heads % self.kv_heads:
            return f"n_kv_heads {self.kv_heads} does not divide n_heads {self.n_heads}; choose a divisor"
        return None

    def mixing(self, features: tuple[int, int], place: Place, position: Position, dropout: float) -> Mixing:
        """What queries do with keys of features[0] and values of features[1] features, by all the options above."""
        return Mixing(
            (self.n_heads, self.kv_heads),
            features,
            scale=self.scale.factor(features[0] / place.head_growth) / place.head_growth,
            softcap=self.softcap or math.inf,
            window=self.window or math.inf,
            softmax=SinkSoftmax(self.n_heads) if self.sinks else Softmax(),
            bias=position.bias(self.n_heads, place),
            dropout=dropout,
        )

    def normalising(self, heads: tuple[int, int], head_dim: int, place: Place) -> QkNorm:
        """What heads[0] queries and heads[1] keys, packed in this order, go through around their rotation."""
        if isinstance(self.qk_norm, NoNorm):
            return QkNorm(heads)
        is_joint = self.qk_norm_over == "all_heads"
        query, key = (self.qk_norm.build(n * head_dim if is_joint else head_dim, place) for n in heads)
        placed = NormBefore if self.qk_norm_place == "before_position" else NormAfter
        return placed(query, key, heads, is_joint)

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
    n_kv_heads: HeadCount
    """Heads of keys and values; a divisor of n_heads."""

    @property
    def kv_heads(self) -> int:
        return self.n_kv_heads


class Mqa(Attention):
    """All query heads share one head of keys and values (arXiv:1911.02150)."""

    kind: Literal["mqa"] = "mqa"

    @property
    def kv_heads(self) -> int:
        return 1


class SelfAttention(AttentionModule):
    """One product gives q, k, v and gates; they are read where it left them."""

    def __init__(self, spec: Attention, width: int, place: Place, position: Position, dropout: float) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = spec.n_heads, spec.kv_heads, spec.width_of_head(width)
        self.n_both = self.n_heads, self.n_kv_heads
        q, kv = self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        self.gate = spec.gate
        self.qkv = Projection(
            width,
            Part(Role.QUERY, q, width, "query"),
            Part(Role.KEY, kv, width, "key"),
            Part(Role.VALUE, kv, width, "value"),
            Part(Role.GATE, spec.gate.rows(self.n_heads, self.head_dim), width, "gate"),
            biased=spec.biased,
        )
        self.qk_norm = spec.normalising((self.n_heads, self.n_kv_heads), self.head_dim, place)
        self.rotary = position.rotary(self.head_dim, place)
        self.mixing = spec.mixing((self.head_dim, self.head_dim), place, position, dropout)
        self.output = Linear(q, Part(Role.OUTPUT, width, q), has_bias=spec.output_bias)
        has_none_between = type(self.qk_norm) is QkNorm and isinstance(self.gate, NoGate)
        self.is_packed = has_none_between and isinstance(self.rotary, (Rotary, Unplaced))
        """Whether nothing stands between the product, the rotation and the scores, so that one kernel takes it all."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        qkv_BTN, scores = self.qkv(x_BTD), self.mixing.scores()
        if self.is_packed and scores is not None and attends_packed(qkv_BTN, self.n_both, scores):
            rotation = self.rotary.rotation(qkv_BTN) if isinstance(self.rotary, Rotary) else None
            return self.output(attend_packed(qkv_BTN, self.n_both, scores, rotation, overwrite=True))
        return self.gather(self.parted(qkv_BTN))

    def takes_cudnn(self, length: int) -> bool:
        """Whether cuDNN attends in training, on sequences of that length, in a run that may be fast."""
        scores = self.mixing.scores()
        return self.is_packed and scores is not None and cudnn_is_faster(self.head_dim, length, scores)

    def heads(self, x_BTD: Tensor, offset: int = 0) -> Heads:
        return self.parted(self.qkv(x_BTD), offset)

    def parted(self, qkv_BTN: Tensor, offset: int = 0) -> Heads:
        """Heads of the packed product."""
        q, k, v, gates = self.qkv.sizes
        qk_BTN, v_BTN, gate_BTR = qkv_BTN.split((q + k, v, gates), dim=-1)
        qk_BTHd, v_BTKd = (x_BTN.unflatten(-1, (-1, self.head_dim)) for x_BTN in (qk_BTN, v_BTN))
        q_BTHd, k_BTKd = self.qk_norm(qk_BTHd, partial(self.rotary, offset=offset))
        return Heads(q_BTHd.transpose(1, 2), k_BTKd.transpose(1, 2), v_BTKd.transpose(1, 2), gate_BTR)

    def mix(self, heads: Heads, offset: int) -> Tensor:
        return self.mixing(*heads[:3], offset)
