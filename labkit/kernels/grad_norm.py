# pyright: basic, reportInvalidTypeForm=false
"""The global norm of a gradient, in a fixed order, into a scalar that stays on the device.

norm = √Σ g²        squares and sums in fp32: a bounded number of programs, and one that adds up what they found
"""

import torch
from torch import Tensor

from labkit.kernels.launch import available, jit, multiprocessors, on, power, setting, team, tl


def grad_norm_reference(gradient: Tensor) -> Tensor:
    return torch.linalg.vector_norm(gradient, dtype=torch.promote_types(gradient.dtype, torch.float32))


@jit
def _squares(gradient, sums, count, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for block in range(tl.program_id(0).to(tl.int64), tl.cdiv(count, BLOCK), tl.num_programs(0)):
        place = block * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(gradient + place, place < count, other=0.0).to(tl.float32)
        total += value * value
    tl.store(sums + tl.program_id(0), tl.sum(total, 0))


@jit(do_not_specialize=["count"])
def _root(sums, norm, count, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, count, BLOCK):
        place = first + tl.arange(0, BLOCK)
        total += tl.load(sums + place, place < count, other=0.0)
    tl.store(norm, tl.sqrt(tl.sum(total, 0)))


def grad_norm(gradient: Tensor) -> Tensor:
    """√Σ g² over all elements, of any shape: a scalar, in fp32 or better."""
    if not available(gradient) or not gradient.is_contiguous():
        return grad_norm_reference(gradient)
    device, chosen = gradient.device, setting("grad_norm", 1)
    programs = min(-(-gradient.numel() // chosen.elements), multiprocessors(device) * chosen.programs)
    sums, norm = (torch.empty(size, dtype=torch.float32, device=device) for size in ((programs,), ()))
    with on(device):
        _squares[(programs,)](gradient, sums, gradient.numel(), BLOCK=chosen.elements, **team(chosen.warps))
        _root[(1,)](sums, norm, programs, BLOCK=min(1024, power(programs)), **team(4))
    return norm
