# pyright: basic, reportInvalidTypeForm=false
"""What loss and norm of a step come to, in one launch: a flag, what divides the gradient, and what is put on record.

frozen ← 1 where loss or norm is not finite, and stays;  divisor ← max(1, norm / clip);  values ← loss, norm, frozen
"""

import torch
from torch import Tensor

from labkit.kernels.launch import available, jit, on, team, tl


def verdict_reference(
    loss: Tensor, norm: Tensor, clip: float, *, frozen: Tensor, divisor: Tensor, values_3: Tensor
) -> None:
    finite = torch.isfinite(loss) & torch.isfinite(norm)
    frozen.copy_(torch.maximum(frozen, (~finite).float()))
    divisor.copy_((norm / clip).clamp(min=1))
    values_3.copy_(torch.stack((loss.double(), norm.double(), frozen.double())))


@jit
def _verdict(loss, norm, clip, frozen, divisor, values):
    a, b, flag = tl.load(loss), tl.load(norm), tl.load(frozen)
    finite = (tl.abs(a) < float("inf")) & (tl.abs(b) < float("inf"))
    flag = tl.where(finite, flag, 1.0)
    tl.store(frozen, flag)
    tl.store(divisor, tl.maximum(b / clip, 1.0))
    tl.store(values, a.to(tl.float64))
    tl.store(values + 1, b.to(tl.float64))
    tl.store(values + 2, flag.to(tl.float64))


def verdict(loss: Tensor, norm: Tensor, clip: float, *, frozen: Tensor, divisor: Tensor, values_3: Tensor) -> None:
    """Write frozen and divisor, fp32 scalars, and values_3, in fp64; an infinite clip clips nothing."""
    if not available(loss, norm, frozen, divisor):
        verdict_reference(loss, norm, clip, frozen=frozen, divisor=divisor, values_3=values_3)
        return
    with on(loss.device):
        _verdict[(1,)](loss, norm, float(clip), frozen, divisor, values_3, **team(1))
