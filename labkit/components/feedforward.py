"""The feed-forward branch: what each token computes for itself.

In the formulas up and gate are projections of x to the hidden width, down one back. A gated unit 8/3 · d_model wide has
the size of a plain one of 4 · d_model.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn

from labkit.components.parameters import Linear, Part, Role
from labkit.components.place import Place
from labkit.components.width import Width
from labkit.kernels import Activation, activation, glu
from labkit.spec import Choice, Number, Spec

Multiplier = Annotated[Number, Field(ge=1 / 64, le=1024)]
Approximate = Literal["erf", "tanh"]
GELU: dict[Approximate, Activation] = {"erf": "gelu", "tanh": "gelu_tanh"}


class FeedForward(Choice):
    """What stands between a token's vector and what it adds to itself."""

    def build(self, width: int, place: Place) -> nn.Module:
        """A module x_BTD -> x_BTD."""
        raise NotImplementedError

    def fault(self, width: int) -> str | None:
        """Why this cannot work at that width, or None."""
        return None


class Hidden(Spec):
    """How wide the unit between two projections is."""

    d_ff: Width | None = None
    """Hidden features; by the rule below unless given."""
    multiplier: Multiplier = 4.0
    """d_ff = multiplier · d_model, rounded up to a multiple of `multiple_of`."""
    multiple_of: Width = 8
    bias: bool = False
    """A bias on every projection."""

    def idle(self) -> Mapping[str, str]:
        given = f"where d_ff {self.d_ff} is given; leave one of them out"
        return {} if self.d_ff is None else {"multiplier": given}

    def hidden(self, width: int) -> int:
        """The hidden width at a model width."""
        return self.d_ff or self.multiple_of * math.ceil(int(round(self.multiplier * width, 6)) / self.multiple_of)

    def fault(self, width: int) -> str | None:
        """Why this cannot work at that width, or None."""
        if not self.hidden(width):
            return f"multiplier {self.multiplier:g} leaves nothing of d_model {width}; write a larger one, or d_ff"
        return None


class Relu(Hidden, FeedForward):
    """down(max(0, up)) (arXiv:1706.03762)."""

    kind: Literal["relu"] = "relu"

    def build(self, width: int, place: Place) -> nn.Module:
        return PlainUnit(self, width, "relu")


class Relu2(Hidden, FeedForward):
    """down(max(0, up)²) (Primer, arXiv:2109.08668)."""

    kind: Literal["relu2"] = "relu2"

    def build(self, width: int, place: Place) -> nn.Module:
        return PlainUnit(self, width, "relu2")


class Gelu(Hidden, FeedForward):
    """down(gelu(up)), gelu(x) = x Φ(x) by erf, or its tanh approximation as in GPT-2 (arXiv:1606.08415)."""

    kind: Literal["gelu"] = "gelu"
    approximate: Approximate = "erf"

    def build(self, width: int, place: Place) -> nn.Module:
        return PlainUnit(self, width, GELU[self.approximate])


class Silu(Hidden, FeedForward):
    """down(up · σ(up)), also called swish (arXiv:1710.05941)."""

    kind: Literal["silu"] = "silu"

    def build(self, width: int, place: Place) -> nn.Module:
        return PlainUnit(self, width, "silu")


class Glu(Hidden, FeedForward):
    """down(σ(gate) ⊙ up) (arXiv:1612.08083; arXiv:2002.05202)."""

    kind: Literal["glu"] = "glu"
    multiplier: Multiplier = 8 / 3

    def build(self, width: int, place: Place) -> nn.Module:
        return GatedUnit(self, width, "sigmoid")


class Bilinear(Hidden, FeedForward):
    """down(gate ⊙ up): a product and no other nonlinearity (arXiv:2002.05202)."""

    kind: Literal["bilinear"] = "bilinear"
    multiplier: Multiplier = 8 / 3

    def build(self, width: int, place: Place) -> nn.Module:
        return GatedUnit(self, width, "identity")


class Reglu(Hidden, FeedForward):
    """down(max(0, gate) ⊙ up) (arXiv:2002.05202)."""

    kind: Literal["reglu"] = "reglu"
    multiplier: Multiplier = 8 / 3

    def build(self, width: int, place: Place) -> nn.Module:
        return GatedUnit(self, width, "relu")


class Geglu(Hidden, FeedForward):
    """down(gelu(gate) ⊙ up), gelu by erf, or its tanh approximation as in Gemma (arXiv:2002.05202)."""

    kind: Literal["geglu"] = "geglu"
    multiplier: Multiplier = 8 / 3
    approximate: Approximate = "erf"

    def build(self, width: int, place: Place) -> nn.Module:
        return GatedUnit(self, width, GELU[self.approximate])


class Swiglu(Hidden, FeedForward):
    """down(silu(gate) ⊙ up), silu(x) = x σ(x) (arXiv:2002.05202)."""

    kind: Literal["swiglu"] = "swiglu"
    multiplier: Multiplier = 8 / 3

    def build(self, width: int, place: Place) -> nn.Module:
        return GatedUnit(self, width, "silu")


class PlainUnit(nn.Module):
    """Up, activation, down."""

    def __init__(self, spec: Hidden, width: int, activation: Activation) -> None:
        super().__init__()
        hidden = spec.hidden(width)
        self.kind: Activation = activation
        self.up = Linear(width, Part(Role.UP, hidden, width), has_bias=spec.bias)
        self.down = Linear(hidden, Part(Role.DOWN, width, hidden), has_bias=spec.bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(activation(self.up(x_BTD), self.kind))


class GatedUnit(nn.Module):
    """One product gives gate and up."""

    def __init__(self, spec: Hidden, width: int, activation: Activation) -> None:
        super().__init__()
        hidden = spec.hidden(width)
        self.kind: Activation = activation
        gate, up = Part(Role.GATE, hidden, width, "gate"), Part(Role.UP, hidden, width, "up")
        self.gate_up = Linear(width, gate, up, has_bias=spec.bias)
        self.down = Linear(hidden, Part(Role.DOWN, width, hidden), has_bias=spec.bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(glu(self.gate_up(x_BTD), self.kind))
