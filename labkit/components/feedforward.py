"""The feed-forward branch: what each token computes for itself."""

import math
from typing import Annotated, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from labkit.components.parameters import Linear, Part, Role
from labkit.components.place import Place
from labkit.spec import Choice, Number, Size

Multiplier = Annotated[Number, Field(ge=1 / 64, le=1024)]


class FeedForward(Choice):
    """The unit between two projections, and how wide it is."""

    d_ff: Size | None = None
    """Hidden features; by the rule below unless given."""
    multiplier: Multiplier = 4.0
    """d_ff = multiplier · d_model, rounded up to a multiple of `multiple_of`."""
    multiple_of: Size = 8
    bias: bool = False
    """A bias on every projection."""

    def hidden(self, width: int) -> int:
        """The hidden width at a model width."""
        return self.d_ff or self.multiple_of * math.ceil(int(round(self.multiplier * width, 6)) / self.multiple_of)

    def fault(self, width: int) -> str | None:
        """Why this cannot work at that width, or None."""
        if not self.hidden(width):
            return f"multiplier {self.multiplier:g} leaves nothing of d_model {width}; write a larger one, or d_ff"
        return None

    def build(self, width: int, place: Place) -> nn.Module:
        """A module x_BTD -> x_BTD."""
        raise NotImplementedError


class Gelu(FeedForward):
    """W_down · gelu(W_up x), gelu(x) = x Φ(x) by erf, or its tanh approximation as in GPT-2 (arXiv:1606.08415)."""

    kind: Literal["gelu"] = "gelu"
    approximate: Literal["erf", "tanh"] = "erf"

    def build(self, width: int, place: Place) -> nn.Module:
        return GeluUnit(width, self.hidden(width), self.bias, "none" if self.approximate == "erf" else "tanh")


class Swiglu(FeedForward):
    """W_down · (silu(W_gate x) ⊙ W_up x) (arXiv:2002.05202); 8/3 · d_model has the size of a plain 4 · d_model."""

    kind: Literal["swiglu"] = "swiglu"
    multiplier: Multiplier = 8 / 3

    def build(self, width: int, place: Place) -> nn.Module:
        return SwigluUnit(width, self.hidden(width), self.bias)


class GeluUnit(nn.Module):
    """Up, gelu, down."""

    def __init__(self, width: int, hidden: int, has_bias: bool, approximate: str) -> None:
        super().__init__()
        self.approximate = approximate
        self.up = Linear(width, Part(Role.UP, hidden, width), has_bias=has_bias)
        self.down = Linear(hidden, Part(Role.DOWN, width, hidden), has_bias=has_bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x_BTD), approximate=self.approximate))


class SwigluUnit(nn.Module):
    """One product gives gate and up."""

    def __init__(self, width: int, hidden: int, has_bias: bool) -> None:
        super().__init__()
        gate, up = Part(Role.GATE, hidden, width, "gate"), Part(Role.UP, hidden, width, "up")
        self.gate_up = Linear(width, gate, up, has_bias=has_bias)
        self.down = Linear(hidden, Part(Role.DOWN, width, hidden), has_bias=has_bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        gate, up = self.gate_up(x_BTD).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)
