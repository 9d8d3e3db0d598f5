"""Normalisation of the residual stream, over the features of each token."""

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from labkit.components.parameters import bias, gain
from labkit.components.place import Place
from labkit.kernels import add_layer_norm, add_rms_norm, layer_norm, rms_norm
from labkit.kernels.norm import Casting
from labkit.spec import Choice, Number

Epsilon = Annotated[Number, Field(gt=0, le=1)]


class Norm(Choice):
    """How activations are normalised before or after a branch."""

    @property
    def is_learned(self) -> bool:
        """Whether it has parameters, by which one differs from the next."""
        return True

    @property
    def is_round(self) -> bool:
        """Whether all directions are alike to it, so that what only turns may come before or after."""
        return False

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
    casting: Casting = "llama"
    """llama: normalised in fp32, cast, times the gain; gemma: times 1 + w in fp32, w from zero, cast at the end."""
    gain: bool = True

    def idle(self) -> Mapping[str, str]:
        return {} if self.gain else {"casting": "where there is no gain to cast; leave it out"}

    @property
    def is_learned(self) -> bool:
        return self.gain

    @property
    def is_round(self) -> bool:
        return not self.gain

    def build(self, width: int, place: Place) -> nn.Module:
        return RmsNorm(width, self.eps, self.casting, self.gain)


class Layer(Norm):
    """(x - mean(x)) / √(var(x) + eps) · gain + bias (arXiv:1607.06450)."""

    kind: Literal["layer"] = "layer"
    eps: Epsilon = 1e-5
    bias: bool = True

    def build(self, width: int, place: Place) -> nn.Module:
        return LayerNorm(width, self.eps, self.bias)


class Dyt(Norm):
    """tanh(alpha · x) · gain + bias, one learned alpha: a norm's shape without its statistics (arXiv:2503.10622)."""

    kind: Literal["dyt"] = "dyt"
    alpha: Annotated[Number, Field(gt=0)] = 0.5
    """At the start."""

    def build(self, width: int, place: Place) -> nn.Module:
        return DynamicTanh(width, self.alpha)


class Scale(Norm):
    """g · x / ‖x‖ with one learned g, √width at the start (ScaleNorm, arXiv:1910.05895)."""

    kind: Literal["scale"] = "scale"
    eps: Annotated[Number, Field(gt=0)] = 1e-5
    """The smallest length that is divided by."""

    @property
    def is_round(self) -> bool:
        return True

    def build(self, width: int, place: Place) -> nn.Module:
        return ScaleNorm(width, self.eps)


class NoNorm(Norm):
    """x: no normalisation at all (Transformers without Normalization, arXiv:2503.10622, is what to compare it with)."""

    kind: Literal["none"] = "none"

    @property
    def is_learned(self) -> bool:
        return False

    def build(self, width: int, place: Place) -> nn.Module:
        return Identity()


class RmsNorm(NormModule):
    """Root-mean-square norm; the statistics are taken in fp32, and the casting says when the gain is."""

    def __init__(self, width: int, eps: float, casting: Casting, has_gain: bool) -> None:
        super().__init__()
        self.eps = eps
        self.casting: Casting = casting
        self.gain = gain(width, 1.0 if casting == "llama" else 0.0) if has_gain else None

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.gain, eps=self.eps, casting=self.casting)

    def added(self, *parts: Tensor, uses: int = 1) -> tuple[Tensor, ...]:
        return add_rms_norm(*parts, gain=self.gain, eps=self.eps, casting=self.casting, uses=uses)


class LayerNorm(NormModule):
    """Layer norm; the statistics are taken in fp32."""

    def __init__(self, width: int, eps: float, has_bias: bool) -> None:
        super().__init__()
        self.eps = eps
        self.gain = gain(width)
        self.bias = bias(width) if has_bias else None

    def forward(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.gain, self.bias, eps=self.eps)

    def added(self, *parts: Tensor, uses: int = 1) -> tuple[Tensor, ...]:
        return add_layer_norm(*parts, gain=self.gain, bias=self.bias, eps=self.eps, uses=uses)


class DynamicTanh(NormModule):
    """A squashing of each feature by itself."""

    def __init__(self, width: int, alpha: float) -> None:
        super().__init__()
        self.alpha, self.gain, self.bias = gain(1, alpha), gain(width), bias(width)

    def forward(self, x: Tensor) -> Tensor:
        squashed = torch.tanh(self.alpha.to(x.dtype) * x)
        return squashed * self.gain.to(x.dtype) + self.bias.to(x.dtype)


class ScaleNorm(NormModule):
    """Puts every token at one learned distance; the length is taken in fp32 or better."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.gain = gain(1, math.sqrt(width))

    def forward(self, x: Tensor) -> Tensor:
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        length = torch.linalg.vector_norm(exact, dim=-1, keepdim=True).clamp(min=self.eps)
        return (self.gain * exact / length).to(x.dtype)


class Identity(NormModule):
    """The null norm."""

    def forward(self, x: Tensor) -> Tensor:
        return x
