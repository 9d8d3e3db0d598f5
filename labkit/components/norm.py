"""Normalisation of the residual stream, over the features of each token."""

from typing import Annotated, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from labkit.components.parameters import bias, gain
from labkit.components.place import Place
from labkit.spec import Choice, Number

Epsilon = Annotated[Number, Field(gt=0, le=1)]


class Norm(Choice):
    """How activations are normalised before or after a branch."""

    def build(self, width: int, place: Place) -> nn.Module:
        """A module (..., width) -> (..., width)."""
        raise NotImplementedError


class NormModule(nn.Module):
    """A norm that can take the residual stream's pending branches with it; a fused one does so in one pass."""

    def added(self, *parts: Tensor, uses: int = 1) -> tuple[Tensor, ...]:
        """The sum of the parts, then that sum normalised, once for each use."""
        return added(self, *parts, uses=uses)


def added(norm: nn.Module, *parts: Tensor, uses: int = 1) -> tuple[Tensor, ...]:
    """What `NormModule.added` gives, with any module for the norm."""
    total = sum(parts[1:], parts[0])
    return total, *(norm(total),) * uses


class Rms(Norm):
    """x / √(mean(x²) + eps) · gain: no centring, one gain per feature (arXiv:1910.07467)."""

    kind: Literal["rms"] = "rms"
    eps: Epsilon = 1e-6

    def build(self, width: int, place: Place) -> nn.Module:
        return RmsNorm(width, self.eps)


class Layer(Norm):
    """(x - mean(x)) / √(var(x) + eps) · gain + bias (arXiv:1607.06450)."""

    kind: Literal["layer"] = "layer"
    eps: Epsilon = 1e-5
    bias: bool = True

    def build(self, width: int, place: Place) -> nn.Module:
        return LayerNorm(width, self.eps, self.bias)


class NoNorm(Norm):
    """x: no normalisation at all (Transformers without Normalization, arXiv:2503.10622, is what to compare it with)."""

    kind: Literal["none"] = "none"

    def build(self, width: int, place: Place) -> nn.Module:
        return Identity()


class RmsNorm(NormModule):
    """Root-mean-square norm; the statistics are taken in fp32."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.gain = gain(width)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.gain.shape, self.gain.to(x.dtype), self.eps)


class LayerNorm(NormModule):
    """Layer norm; the statistics are taken in fp32."""

    def __init__(self, width: int, eps: float, has_bias: bool) -> None:
        super().__init__()
        self.eps = eps
        self.gain = gain(width)
        self.bias = bias(width) if has_bias else None

    def forward(self, x: Tensor) -> Tensor:
        offset = None if self.bias is None else self.bias.to(x.dtype)
        return F.layer_norm(x, self.gain.shape, self.gain.to(x.dtype), offset, self.eps)


class Identity(NormModule):
    """The null norm."""

    def forward(self, x: Tensor) -> Tensor:
        return x
