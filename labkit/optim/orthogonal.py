"""The nearest orthogonal matrix, roughly, by products alone (Newton-Schulz; Jordan et al. 2024)."""

import torch
from torch import Tensor

EPS = 1e-7
"""Below this norm a matrix counts as zero."""


def orthogonalized(x: Tensor, coefficients: tuple[float, float, float], iterations: int, dtype: torch.dtype) -> Tensor:
    """U p(S) Vᵀ of x / ‖x‖ = U S Vᵀ, p the `iterations`-fold s ↦ a s + b s³ + c s⁵, which takes (0, 1] near to 1.

    Of a matrix, or of each in a stack of them (..., rows, columns); products are made in `dtype`.
    """
    a, b, c = coefficients
    is_tall = x.shape[-2] > x.shape[-1]
    wide = (x.mT if is_tall else x).reshape(-1, min(x.shape[-2:]), max(x.shape[-2:]))
    y = (wide / wide.norm(dim=(-2, -1), keepdim=True).clamp(min=EPS)).to(dtype)
    for _ in range(iterations):
        gram = y @ y.mT
        y = torch.baddbmm(y, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), y, beta=a)
    y = y.to(x.dtype)
    return (y.mT if is_tall else y).reshape(x.shape)
