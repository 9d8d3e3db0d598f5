"""How the network knows the order of the tokens: in the embeddings, in queries and keys, or in their scores."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from labkit.components.bias import BucketBias, NoBias, ScoreBias, SlopeBias, alibi_slopes
from labkit.components.parameters import Part, Role, parameter
from labkit.components.place import Place
from labkit.components.rope_scaling import NoScaling, RopeScaling, unscaled
from labkit.components.rotary import Rotary, Waves
from labkit.spec import Choice, Count, Number, Size


class Position(Choice):
    """How positions enter; by default nowhere. Every module takes the position of its first token as `offset`."""

    def build(self, width: int, place: Place) -> nn.Module:
        """What the embeddings x_BTD pass through: a module (x_BTD, offset=0) -> x_BTD."""
        return Unplaced()

    def rotary(self, head_dim: int, place: Place) -> nn.Module:
        """What queries and keys pass through: a module (x_BTHD, offset=0) -> x_BTHD."""
        return Unplaced()

    def bias(self, n_heads: int, place: Place) -> ScoreBias:
        """What is added to the scores of every head."""
        return NoBias()

    @property
    def turns(self) -> bool:
        """Whether queries and keys are changed."""
        return type(self).rotary is not Position.rotary

    @property
    def keeps_lengths(self) -> bool:
        """Whether queries and keys stay as long as they are."""
        return not self.turns

    def reach(self, context: int) -> int | None:
        """The longest sequence that can be encoded, in tokens; None: any."""
        return None

    def fault(self, head_dim: int) -> str | None:
        """Why this cannot work on heads of that size, or None."""
        return None


class Rope(Position):
    """Pairs of features (a, b) of q and k turn by position · theta^(-2i/d) (arXiv:2104.09864)."""

    kind: Literal["rope"] = "rope"
    theta: Annotated[Number, Field(ge=1)] = 10_000.0
    layout: Literal["half", "interleaved"] = "half"
    """Which features make a pair: i and i + d/2 (GPT-NeoX, Llama), or 2i and 2i + 1 (GPT-J)."""
    fraction: Annotated[Number, Field(gt=0, le=1)] = 1.0
    """The share of each head that turns; the rest passes unchanged."""
    scaling: RopeScaling = NoScaling()
    """How the angles change to reach further."""

    def rotary(self, head_dim: int, place: Place) -> nn.Module:
        frequencies = self.scaling.frequencies(self.theta, self.rotated(head_dim), place.context)
        return Rotary(frequencies, self.scaling.amplitude, self.layout, place.context)

    @property
    def keeps_lengths(self) -> bool:
        return self.scaling.amplitude == 1.0

    def rotated(self, head_dim: int) -> int:
        """How many features of each head turn."""
        return int(head_dim * self.fraction)

    def fault(self, head_dim: int) -> str | None:
        rotated = self.rotated(head_dim)
        if rotated < 2 or rotated % 2:
            share = f"{self.fraction:g} of head_dim {head_dim}"
            return f"rope turns pairs of features, but {share} is {rotated} features; make that an even number"
        return self.scaling.fault(self.theta, rotated)


class Learned(Position):
    """x + P[position], one learned vector per position up to the training length (arXiv:1706.03762, section 3.5)."""

    kind: Literal["learned"] = "learned"

    def build(self, width: int, place: Place) -> nn.Module:
        return LearnedPositions(width, place.context)

    def reach(self, context: int) -> int | None:
        return context


class Sinusoidal(Position):
    """x + (sin a, cos a, …), a = position · theta^(-2i/width) (arXiv:1706.03762, which takes embeddings · √width)."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    theta: Annotated[Number, Field(gt=0)] = 10_000.0

    def build(self, width: int, place: Place) -> nn.Module:
        return SinusoidalPositions(width, self.theta, place.context)


class Alibi(Position):
    """q kᵀ/√d - slope · (i - j) with slopes 2^(-8h/n_heads): nearer tokens score higher (arXiv:2108.12409)."""

    kind: Literal["alibi"] = "alibi"

    def bias(self, n_heads: int, place: Place) -> ScoreBias:
        return SlopeBias(alibi_slopes(n_heads))


class T5(Position):
    """q kᵀ/√d + b[bucket(i - j)], a number for each head, bucket and layer (arXiv:1910.10683, which shares layers')."""

    kind: Literal["t5"] = "t5"
    buckets: Annotated[Size, Field(ge=2)] = 32
    """Half of them for one distance each, half for ranges that grow with the logarithm."""
    max_distance: Count = 128
    """From here on, all distances share the last bucket."""

    def bias(self, n_heads: int, place: Place) -> ScoreBias:
        return BucketBias(n_heads, self.buckets, self.max_distance)

    def fault(self, head_dim: int) -> str | None:
        if self.max_distance <= self.buckets // 2:
            half = self.buckets // 2
            return f"max_distance {self.max_distance} must be above half of buckets {self.buckets}, which is {half}"
        return None


class NoPosition(Position):
    """Nothing: the causal mask alone tells order (NoPE, arXiv:2305.19466)."""

    kind: Literal["none"] = "none"


class Unplaced(nn.Module):
    """The null encoding."""

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        return x


class LearnedPositions(nn.Module):
    """One vector per position, added to the embeddings."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.weight = parameter(torch.empty(context, width), Part(Role.EMBEDDING, context, 1))

    def forward(self, x_BTD: Tensor, offset: int = 0) -> Tensor:
        return x_BTD + self.weight[offset : offset + x_BTD.shape[1]]


class SinusoidalPositions(nn.Module):
    """Fixed waves, added to the embeddings."""

    def __init__(self, width: int, theta: float, context: int) -> None:
        super().__init__()
        self.width = width
        self.waves = Waves(unscaled(theta, width), 1.0, context)

    def forward(self, x_BTD: Tensor, offset: int = 0) -> Tensor:
        cos, sin = self.waves(x_BTD, x_BTD.shape[1], offset)
        return x_BTD + torch.stack((sin, cos), dim=-1).flatten(-2)[:, : self.width].to(x_BTD.dtype)
