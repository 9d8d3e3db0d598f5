# pyright: basic, reportInvalidTypeForm=false
"""The head and its loss in chunks of rows, so that the logits never stand in memory together.

logits = h Wᵀ + b, losses and dlogits as in `cross_entropy`, for some rows at a time
dh = dlogits W,  dW = Σ dlogitsᵀ h,  db = Σ dlogits        in the forward pass, dW and db in fp32 over the chunks
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.kernels.cross_entropy import cross_entropy_reference, launch_losses
from labkit.kernels.launch import available, jit, multiprocessors, on, once, team, tl

CHUNKS = 5
"""Into so many the rows are cut."""
LEAST = 1024
"""Rows that a product should have."""


def linear_cross_entropy_reference(
    hidden: Tensor, weight: Tensor, targets: Tensor, *, bias: Tensor | None = None, scale: float = 1.0, **options: Any
) -> tuple[Tensor, Tensor]:
    logits = F.linear(hidden.to(weight.dtype), weight, None if bias is None else bias.to(weight.dtype))
    losses = scale * cross_entropy_reference(logits, targets, **options)
    return losses.sum(), losses.detach()


@jit
def _adjusted(tensor, factor, count, STRICT: tl.constexpr, BLOCK: tl.constexpr):
    """Multiplies in place, unless by one; what may not be multiplied becomes NaN."""
    value = tl.load(factor).to(tl.float32)
    if value != 1.0:
        if STRICT:
            value = float("nan")
        for block in range(tl.program_id(0).to(tl.int64), tl.cdiv(count, BLOCK), tl.num_programs(0)):
            place = block * BLOCK + tl.arange(0, BLOCK)
            old = tl.load(tensor + place, place < count, other=0.0).to(tl.float32)
            tl.store(tensor + place, (old * value).to(tensor.dtype.element_ty), place < count)


def _adjust(tensor: Tensor, factor: Tensor, *, is_strict: bool = False) -> None:
    if not available(tensor, factor):
        if factor.item() != 1.0:
            tensor.mul_(float("nan") if is_strict else factor)
        return
    with on(tensor.device):
        _adjusted[(4 * multiprocessors(tensor.device),)](
            tensor, factor, tensor.numel(), STRICT=is_strict, BLOCK=4096, **team(8)
        )


def _score(
    logits_NV: Tensor, targets_N: Tensor, losses_N: Tensor, options: dict[str, Any], *, has_gradient: bool
) -> None:
    """Write the losses, and over the logits their gradient."""
    if available(logits_NV):
        launch_losses(logits_NV, targets_N, losses_N, logits_NV if has_gradient else None, **options)
        return
    scale, others = options["scale"], {name: value for name, value in options.items() if name != "scale"}
    with torch.enable_grad():
        leaf = logits_NV.detach().requires_grad_()
        losses = scale * cross_entropy_reference(leaf, targets_N, **others)
        losses_N.copy_(losses.detach())
        if has_gradient:
            logits_NV.copy_(torch.autograd.grad(losses.sum(), leaf)[0])


def _add_product(sum_VD: Tensor, dlogits_NV: Tensor, hidden_ND: Tensor, *, fresh: bool) -> None:
    """sum ← dlogitsᵀ h, added to what is there unless fresh, in the precision of the sum."""
    beta = 0 if fresh else 1
    if sum_VD.dtype == hidden_ND.dtype:
        torch.addmm(sum_VD, dlogits_NV.T, hidden_ND, beta=beta, out=sum_VD)
    elif sum_VD.is_cuda:
        torch.addmm(sum_VD, dlogits_NV.T, hidden_ND, out_dtype=sum_VD.dtype, beta=beta, out=sum_VD)
    else:
        torch.addmm(sum_VD, dlogits_NV.T.to(sum_VD.dtype), hidden_ND.to(sum_VD.dtype), beta=beta, out=sum_VD)


class _Sums(NamedTuple):
    """Where the gradients of a call gather; None: nobody asks."""

    hidden: Tensor | None
    weight: Tensor | None
    bias: Tensor | None

    def add(self, some: slice, dlogits_NV: Tensor, hidden_ND: Tensor, weight: Tensor, *, fresh: bool) -> None:
        """What the rows of one chunk give."""
        if self.hidden is not None:
            torch.mm(dlogits_NV, weight, out=self.hidden[some])
        if self.weight is not None:
            _add_product(self.weight, dlogits_NV, hidden_ND[some], fresh=fresh)
        if self.bias is not None:
            self.bias.add_(dlogits_NV.sum(0, dtype=self.bias.dtype))


def _scored(
    hidden_ND: Tensor, weight: Tensor, bias: Tensor | None, targets_N: Tensor, losses_N: Tensor,
    options: dict[str, Any], *, has_gradient: bool,
) -> Iterator[tuple[slice, Tensor]]:  # fmt: skip
    """Chunk by chunk which rows they are, and the gradient of their logits, which the next chunk overwrites."""
    vocab, count = len(weight), len(targets_N)
    rows = min(count, max(LEAST, -(-count // CHUNKS // 128) * 128))
    buffer_NV = hidden_ND.new_empty(rows, -(-vocab // 64) * 64)[:, :vocab]
    for first in range(0, count, rows):
        some = slice(first, min(first + rows, count))
        logits_NV = buffer_NV[: some.stop - first]
        if bias is None:
            torch.mm(hidden_ND[some], weight.T, out=logits_NV)
        else:
            torch.addmm(bias.to(weight.dtype), hidden_ND[some], weight.T, out=logits_NV)
        _score(logits_NV, targets_N[some], losses_N[some], options, has_gradient=has_gradient)
        yield some, logits_NV


class _LinearCrossEntropy(torch.autograd.Function):
    """The sum of the losses, and the losses."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor,
        into: Tensor | None, overwrite: bool, options: dict[str, Any],
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        hidden_ND, targets_N = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1).contiguous()
        exact = torch.promote_types(weight.dtype, torch.float32)
        losses_N = hidden.new_empty(len(targets_N), dtype=exact)
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        sums = _Sums(
            torch.empty_like(hidden_ND) if needs_hidden else None,
            torch.empty_like(weight, dtype=exact) if needs_weight else into,
            hidden.new_zeros(len(weight), dtype=exact) if needs_bias else None,
        )
        has_gradient, overwrite = any(part is not None for part in sums), overwrite or into is None
        chunks = _scored(hidden_ND, weight, bias, targets_N, losses_N, options, has_gradient=has_gradient)
        for some, dlogits_NV in chunks:
            if has_gradient:
                sums.add(some, dlogits_NV, hidden_ND, weight, fresh=overwrite and some.start == 0)
        ctx.sums, ctx.into = sums, into
        ctx.shape, ctx.types = hidden.shape, (weight.dtype, None if bias is None else bias.dtype)
        losses = losses_N.view(targets.shape)
        ctx.mark_non_differentiable(losses)
        return losses_N.sum(), losses

    @staticmethod
    @once
    def backward(ctx: Any, dtotal: Tensor, _: Any) -> tuple[Any, ...]:
        sums, ctx.sums = ctx.sums, None
        if sums is None:
            raise RuntimeError("the gradient of linear_cross_entropy is given away: go backward through it once")
        for gradient in sums:
            if gradient is not None:
                _adjust(gradient, dtotal, is_strict=gradient is ctx.into)
        dhidden, dweight, dbias = sums
        return (
            None if dhidden is None else dhidden.view(ctx.shape),
            None if dweight is None or ctx.into is not None else dweight.to(ctx.types[0]),
            None if dbias is None else dbias.to(ctx.types[1]),
            *(None,) * 4,
        )


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, *, bias: Tensor | None = None,
    smoothing: float = 0.0, z: float = 0.0, softcap: float | None = None, scale: float = 1.0,
    into: Tensor | None = None, overwrite: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The sum over all tokens, to go backward from, and the losses (...) without a gradient, both times the scale.

    Of hidden (..., D), weight (V, D), bias (V,) and targets (...), the losses as `cross_entropy` has them. In the
    forward pass the weight's gradient is added to `into` (V, D), or overwrites it, and the weight gets none of its own;
    the backward pass must then start from this sum, or a sum that it is a term of: another factor makes `into` NaN.
    """
    options = {"smoothing": smoothing, "z": z, "softcap": softcap, "scale": scale}
    into = into if torch.is_grad_enabled() else None
    if targets.numel() == 0 or not (available(hidden, weight, bias) or into is not None):
        return linear_cross_entropy_reference(hidden, weight, targets, bias=bias, **options)
    taken = weight if into is None else weight.detach()
    return _LinearCrossEntropy.apply(hidden.to(weight.dtype), taken, bias, targets, into, overwrite, options)
