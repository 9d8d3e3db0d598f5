# pyright: basic, reportInvalidTypeForm=false
"""The head and its loss in chunks of rows, so that the logits never stand in memory together.

logits = h Wᵀ + b, losses and dlogits as in `cross_entropy`, for some rows at a time
dh = dlogits W,  dW = Σ dlogitsᵀ h,  db = Σ dlogits        in the forward pass, dW and db in fp32 over the chunks
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labkit.kernels.cross_entropy import cross_entropy, launch_losses
from labkit.kernels.gradient import Gathering, add_product, gathering
from labkit.kernels.launch import available, jit, multiprocessors, on, once, team, tl
from labkit.kernels.linear import linear

CHUNKS = 5
"""Into so many the rows are cut: so with the gradient of the hidden states less than a quarter of the logits stands."""
LEAST = 1024
"""Rows that a product should have."""
SHARE = 1 / 16
"""Of a GPU's memory: logits that take more are made in chunks, which costs up to a tenth of the head's time."""


def in_chunks(count: int, vocab: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether so many rows of logits take too much memory to stand there together."""
    return device.type == "cuda" and count * vocab * dtype.itemsize > SHARE * _memory(device)


@lru_cache
def _memory(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).total_memory


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
    with on(tensor.device):
        _adjusted[(4 * multiprocessors(tensor.device),)](
            tensor, factor, tensor.numel(), STRICT=is_strict, BLOCK=4096, **team(8)
        )


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
            add_product(self.weight, dlogits_NV, hidden_ND[some], fresh=fresh)
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
        launch_losses(logits_NV, targets_N[some], losses_N[some], logits_NV if has_gradient else None, **options)
        yield some, logits_NV


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, options: dict[str, Any],
        place: Gathering | None,
    ) -> Tensor:  # fmt: skip
        hidden_ND, targets_N = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1).contiguous()
        losses_N = hidden.new_empty(len(targets_N), dtype=torch.float32)
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        ctx.into = place.into if place is not None and needs_weight else None
        begins = place is None or not needs_weight or place.begins()
        sums = _Sums(
            torch.empty_like(hidden_ND) if needs_hidden else None,
            ctx.into if ctx.into is not None or not needs_weight else torch.empty_like(weight, dtype=torch.float32),
            hidden.new_zeros(len(weight), dtype=torch.float32) if needs_bias else None,
        )
        has_gradient = any(part is not None for part in sums)
        chunks = _scored(hidden_ND, weight, bias, targets_N, losses_N, options, has_gradient=has_gradient)
        for some, dlogits_NV in chunks:
            if has_gradient:
                sums.add(some, dlogits_NV, hidden_ND, weight, fresh=begins and some.start == 0)
        ctx.sums = sums
        ctx.shape, ctx.types = hidden.shape, (weight.dtype, None if bias is None else bias.dtype)
        return losses_N.view(targets.shape)

    @staticmethod
    @once
    def backward(ctx: Any, dlosses: Tensor) -> tuple[Any, ...]:
        sums, ctx.sums = ctx.sums, None
        if sums is None:
            raise RuntimeError("the gradient of linear_cross_entropy is given away: go backward through it once")
        if any(stride and size > 1 for stride, size in zip(dlosses.stride(), dlosses.shape, strict=True)):
            raise RuntimeError(
                "linear_cross_entropy has the gradient of the sum of its losses: go backward from .sum(), with a "
                "mean's divisor in its scale"
            )
        factor = dlosses[(0,) * dlosses.ndim]
        for gradient in sums:
            if gradient is not None:
                _adjust(gradient, factor, is_strict=gradient is ctx.into)
        dhidden, dweight, dbias = sums
        return (
            None if dhidden is None else dhidden.view(ctx.shape),
            None if dweight is None or ctx.into is not None else dweight.to(ctx.types[0]),
            None if dbias is None else dbias.to(ctx.types[1]),
            *(None,) * 3,
        )


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, *, bias: Tensor | None = None,
    smoothing: float = 0.0, z: float = 0.0, softcap: float | None = None, scale: float = 1.0,
    chunked: bool | None = None,
) -> Tensor:  # fmt: skip
    """Of hidden (..., D), weight (V, D), bias (V,) and targets (...), the losses as `cross_entropy` has them.

    In chunks, if told or where the logits take too much memory (`in_chunks`), the gradients are made in the forward
    pass, that of the weight in its place if it has one. The backward pass must then start from the sum of the losses,
    which may be a term of another: a factor for each token is an error, and one for all makes a weight's place NaN.
    """
    options = {"smoothing": smoothing, "z": z, "softcap": softcap, "scale": scale}
    hidden = hidden.to(weight.dtype)
    is_taken = targets.numel() > 0 and targets.device == hidden.device and available(hidden, weight, bias)
    if chunked is None:
        chunked = in_chunks(targets.numel(), len(weight), weight.dtype, weight.device)
    if not (is_taken and chunked):
        return cross_entropy(linear(hidden, weight, bias), targets, overwrite=True, **options)
    return _LinearCrossEntropy.apply(hidden, weight, bias, targets, options, gathering(weight))
