"""What all attention modules share: heads of queries, keys and values, a gate, one projection back to the stream.

B batch, T time, D width, H heads, K key-value heads, d features of a key, e of a value, R gates.
"""

from collections.abc import Collection
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from labkit.components.parameters import Linear, Part, Role, parameter
from labkit.kernels import linear
from labkit.spec import Choice


class Gate(Choice):
    """What scales the gathered values before the output projection."""

    def rows(self, n_heads: int, value_dim: int) -> int:
        """How many gates a token has."""
        return 0

    def applied(self, mixed_BTHe: Tensor, logits_BTR: Tensor) -> Tensor:
        """The gathered values, scaled."""
        return mixed_BTHe


class NoGate(Gate):
    """y = gathered: nothing is scaled (arXiv:1706.03762)."""

    kind: Literal["none"] = "none"


class HeadGate(Gate):
    """σ(W x) · gathered, one gate for each head (arXiv:2505.06708)."""

    kind: Literal["head"] = "head"

    def rows(self, n_heads: int, value_dim: int) -> int:
        return n_heads

    def applied(self, mixed_BTHe: Tensor, logits_BTR: Tensor) -> Tensor:
        return mixed_BTHe * logits_BTR.sigmoid().unsqueeze(-1)


class ElementGate(Gate):
    """σ(W x) ⊙ gathered, one gate for each feature of each head (arXiv:2505.06708)."""

    kind: Literal["element"] = "element"

    def rows(self, n_heads: int, value_dim: int) -> int:
        return n_heads * value_dim

    def applied(self, mixed_BTHe: Tensor, logits_BTR: Tensor) -> Tensor:
        return mixed_BTHe * logits_BTR.sigmoid().view_as(mixed_BTHe)


class Heads(NamedTuple):
    """q_BHTd, k_BKTd, v_BKTe and gate_BTR; earlier tokens' keys and values may be kept, and put before later ones'."""

    q: Tensor
    k: Tensor
    v: Tensor
    gate: Tensor


class AttentionModule(nn.Module):
    """x_BTD -> x_BTD, in two halves so that the keys and values of earlier tokens may be kept."""

    gate: Gate
    output: Linear

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.gather(self.heads(x_BTD))

    def heads(self, x_BTD: Tensor, offset: int = 0) -> Heads:
        """The queries, keys, values and gates of tokens that stand at `offset` and after."""
        raise NotImplementedError

    def mix(self, heads: Heads, offset: int) -> Tensor:
        """What each query takes from the keys and values up to its own: mixed_BHTe."""
        raise NotImplementedError

    def gather(self, heads: Heads, offset: int = 0) -> Tensor:
        """x_BTD of the T queries, of which the first stands where key `offset` does."""
        mixed_BTHe = self.mix(heads, offset).transpose(1, 2)
        return self.output(self.gate.applied(mixed_BTHe, heads.gate).flatten(2))


class Projection(Linear):
    """One product for several parts, of which those named in `biased` have a bias."""

    bias: nn.Parameter | None

    def __init__(self, width: int, *parts: Part, biased: Collection[str] = ()) -> None:
        super().__init__(width, *(part for part in parts if part.rows))
        self.sizes = [part.rows for part in parts]
        chosen = [part for part in parts if part.name in biased]
        self.runs = [(part.rows, part in chosen) for part in parts]
        if chosen:
            rows = sum(part.rows for part in chosen)
            self.bias = parameter(torch.zeros(rows), *(Part(Role.BIAS, part.rows, 1, part.name) for part in chosen))

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., rows), in the weight's precision."""
        return linear(x.to(self.weight.dtype), self.weight, None if self.bias is None else self.full(self.bias))

    def full(self, bias: Tensor) -> Tensor:
        """The bias of every row, zero where a part has none."""
        if len(bias) == len(self.weight):
            return bias
        stored = iter(bias.split([rows for rows, is_biased in self.runs if is_biased]))
        return torch.cat([next(stored) if is_biased else bias.new_zeros(rows) for rows, is_biased in self.runs])
