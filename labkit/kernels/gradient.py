"""Where the gradient of a parameter gathers, if it has a place of its own: its rows of a buffer for a whole model.

The first gradient of a step overwrites what is there, later ones add to it. So a product may write there at once what
it would otherwise leave in a tensor of its own, to be copied.
"""

import torch
from torch import Tensor


class Gathering:
    """The place of one parameter's gradient."""

    def __init__(self, into: Tensor) -> None:
        self.into, self.is_awaited = into, False

    def begins(self) -> bool:
        """Whether what comes now is the first of a step, and overwrites. It counts as having come."""
        begins, self.is_awaited = self.is_awaited, False
        return begins

    def take(self, gradient: Tensor) -> None:
        """Copy a gradient here, or add it to what is here."""
        if self.begins():
            self.into.copy_(gradient)
        else:
            self.into.add_(gradient)

    def add_product(self, dy_NR: Tensor, x_ND: Tensor) -> None:
        """The gradient dyᵀ x of a matrix, (R, D), in the precision of the place."""
        add_product(self.into, dy_NR, x_ND, fresh=self.begins())

    def close(self) -> None:
        """The step is over: where nothing has come, the gradient is zero."""
        if self.begins():
            self.into.zero_()


def gathering(weight: Tensor) -> Gathering | None:
    """The place of a weight's gradient, if it has one and a gradient is on its way."""
    is_asked = torch.is_grad_enabled() and weight.requires_grad and not torch.compiler.is_compiling()
    return getattr(weight, "gathering", None) if is_asked else None


def add_product(sum_RD: Tensor, dy_NR: Tensor, x_ND: Tensor, *, fresh: bool) -> None:
    """sum ← dyᵀ x, added to what is there unless fresh, in the precision of the sum."""
    if sum_RD.dtype == x_ND.dtype or not sum_RD.is_cuda:
        exact = (dy_NR.T.to(sum_RD.dtype), x_ND.to(sum_RD.dtype))
        torch.addmm(sum_RD, *exact, beta=0 if fresh else 1, out=sum_RD)
    elif fresh:
        torch.mm(dy_NR.T, x_ND, out_dtype=sum_RD.dtype, out=sum_RD)
    else:
        torch.addmm(sum_RD, dy_NR.T, x_ND, out_dtype=sum_RD.dtype, out=sum_RD)
