# pyright: basic
"""A product whose weight's gradient is written straight into the place where it gathers.

y = x Wᵀ + b        dx = dy W,  dW = dyᵀ x in the precision of its place,  db = Σ dy in that of the bias
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.kernels.gradient import Gathering, gathering
from labkit.kernels.launch import available, once, rows


def linear_reference(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(x, weight, None if bias is None else bias.to(weight.dtype))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, place: Gathering) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.place, ctx.exact = place, None if bias is None else bias.dtype
        exact = None if bias is None else bias.to(weight.dtype)
        y = torch.mm(rows(x), weight.T) if exact is None else torch.addmm(exact, rows(x), weight.T)
        return torch.ops.aten._unsafe_view(y, [*x.shape[:-1], len(weight)])  # no view, so that it may be written over

    @staticmethod
    @once
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        dy_NR = rows(dy)
        dx = torch.mm(dy_NR, weight).view(x.shape) if ctx.needs_input_grad[0] else None
        ctx.place.add_product(dy_NR, rows(x))
        return dx, None, dy_NR.sum(0, dtype=ctx.exact) if ctx.needs_input_grad[2] else None, None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (..., D) times weight (R, D), transposed, plus bias (R,), in the precision of x and weight: (..., R)."""
    place = gathering(weight)
    if place is None or not available(x, weight, bias):
        return linear_reference(x, weight, bias)
    return _Linear.apply(x, weight, bias, place)
