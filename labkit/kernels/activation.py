# pyright: basic, reportInvalidTypeForm=false
"""Activations of a feed-forward unit, elementwise.

relu   max(0, x)        silu        x σ(x)
relu2  max(0, x)²       gelu        x Φ(x), Φ by erf
                        gelu_tanh   x σ(2u), u = √(2/π) (x + 0.044715 x³): its tanh form, since 1 + tanh u = 2 σ(2u)
dx = dy · slope(x), computed from x again
"""

import math
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.kernels.launch import available, jit, on, once, setting, team, tl

Activation = Literal["identity", "sigmoid", "relu", "relu2", "silu", "gelu", "gelu_tanh"]

REFERENCES = {
    "identity": lambda x: x,
    "sigmoid": torch.sigmoid,
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}

ROOT_HALF = tl.constexpr(math.sqrt(0.5))
DENSITY = tl.constexpr(1 / math.sqrt(2 * math.pi))
TANH = tl.constexpr(2 * math.sqrt(2 / math.pi))
CUBE = tl.constexpr(0.044715)
THREE_CUBES = tl.constexpr(3 * 0.044715)


def activation_reference(x: Tensor, kind: Activation) -> Tensor:
    return REFERENCES[kind](x)


@jit
def _normal(x):
    """Φ(x) to 1e-7 (Abramowitz and Stegun 7.1.26), half the instructions of erf, and exp(-x²/2), which it needs."""
    bell = tl.exp(-0.5 * x * x)
    t = 1.0 / (tl.abs(x) * (0.3275911 * ROOT_HALF) + 1.0)
    tail = 0.5 * bell * t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )  # fmt: skip
    return tl.where(x < 0.0, tail, 1.0 - tail), bell


@jit
def activated(x, KIND: tl.constexpr):
    """In fp32."""
    if KIND == "sigmoid":
        y = tl.sigmoid(x)
    elif KIND == "relu":
        y = tl.where(x > 0, x, 0.0)
    elif KIND == "relu2":
        y = tl.where(x > 0, x * x, 0.0)
    elif KIND == "silu":
        y = x * tl.sigmoid(x)
    elif KIND == "gelu":
        below, _ = _normal(x)
        y = x * below
    elif KIND == "gelu_tanh":
        y = x * tl.sigmoid((x + x * x * x * CUBE) * TANH)
    else:
        y = x
    return y


@jit
def slope(x, KIND: tl.constexpr):
    """The derivative, in fp32."""
    if KIND == "sigmoid":
        s = tl.sigmoid(x)
        d = s * (1.0 - s)
    elif KIND == "relu":
        d = tl.where(x > 0, 1.0, 0.0)
    elif KIND == "relu2":
        d = tl.where(x > 0, 2.0 * x, 0.0)
    elif KIND == "silu":
        s = tl.sigmoid(x)
        d = s * (1.0 + x * (1.0 - s))
    elif KIND == "gelu":
        below, bell = _normal(x)
        d = below + x * bell * DENSITY
    elif KIND == "gelu_tanh":
        s = tl.sigmoid((x + x * x * x * CUBE) * TANH)
        d = s * (1.0 + x * (1.0 - s) * (x * x * THREE_CUBES + 1.0) * TANH)
    else:
        d = tl.full(x.shape, 1.0, tl.float32)
    return d


@jit
def _forward(x, y, count, KIND: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + place, place < count, other=0.0).to(tl.float32)
    tl.store(y + place, activated(value, KIND).to(y.dtype.element_ty), place < count)


@jit
def _backward(dy, x, dx, count, KIND: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + place, place < count, other=0.0).to(tl.float32)
    gradient = tl.load(dy + place, place < count, other=0.0).to(tl.float32)
    tl.store(dx + place, (gradient * slope(value, KIND)).to(dx.dtype.element_ty), place < count)


def _launch(kernel: Any, kind: Activation, *tensors: Tensor) -> None:
    """The last tensor is written."""
    count, chosen = tensors[-1].numel(), setting("activation", 1)
    with on(tensors[-1].device):
        kernel[(-(-count // chosen.elements),)](*tensors, count, KIND=kind, BLOCK=chosen.elements, **team(chosen.warps))


class _Activation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kind: Activation) -> Tensor:
        ctx.kind, x = kind, x.contiguous()
        ctx.save_for_backward(x)
        y = torch.empty_like(x)
        _launch(_forward, kind, x, y)
        return y

    @staticmethod
    @once
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        _launch(_backward, ctx.kind, dy.contiguous(), x, dx)
        return dx, None


def activation(x: Tensor, kind: Activation) -> Tensor:
    """The activation of each element of x, of any shape."""
    return _Activation.apply(x, kind) if available(x) else activation_reference(x, kind)
