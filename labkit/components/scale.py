"""A factor for each branch of the residual stream, by which a deep network starts near the identity."""

import math
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn

from labkit.components.parameters import gain
from labkit.components.place import Place
from labkit.spec import Choice, Number


class BranchScale(Choice):
    """What a branch's input or output is multiplied by; by default nothing."""

    def build(self, width: int, place: Place) -> nn.Module:
        """What the output x_BTD passes through before it is added to the stream."""
        return nn.Identity()

    def reads(self, place: Place) -> nn.Module:
        """What the input x_BTD, after its norm, passes through."""
        return nn.Identity()


class Unscaled(BranchScale):
    """f(x): every branch counts in full (arXiv:1706.03762)."""

    kind: Literal["none"] = "none"


class Layerscale(BranchScale):
    """gain ⊙ f(x), one learned gain per feature, small at the start (arXiv:2103.17239)."""

    kind: Literal["layerscale"] = "layerscale"
    start: Annotated[Number, Field(gt=0)] = 0.1
    """0.1 up to 18 layers, 1e-5 up to 24, 1e-6 beyond, says the paper."""

    def build(self, width: int, place: Place) -> nn.Module:
        return Gain(width, self.start)


class Rezero(BranchScale):
    """α · f(x), one learned α per branch, zero at the start (arXiv:2003.04887)."""

    kind: Literal["rezero"] = "rezero"

    def build(self, width: int, place: Place) -> nn.Module:
        return Gain(1, 0.0)


class Depth(BranchScale):
    """f(norm(x) / √l) in layer l, counted from 1: deep layers add no more variance (arXiv:2502.05795)."""

    kind: Literal["depth"] = "depth"

    def reads(self, place: Place) -> nn.Module:
        return Factor(1 / math.sqrt(place.layer + 1))


class Gain(nn.Module):
    """A learned factor, for each feature or for all of them."""

    def __init__(self, width: int, start: float) -> None:
        super().__init__()
        self.gain = gain(width, start)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain.to(x.dtype)


class Factor(nn.Module):
    """A fixed factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor
