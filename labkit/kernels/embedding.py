# pyright: basic, reportInvalidTypeForm=false
"""An embedding whose gradient is summed in a fixed order.

    x_n = E[token n],  dE[v] = Σ dx_n over the n with token v, in the order of n, in fp32

The tokens are sorted, stably, and cut into pieces. The program of a piece walks along it and writes each sum that
begins and ends there. A sum that crosses pieces is left in parts, a head where it comes in and a tail where it goes
out; a second kernel adds the heads to each tail.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.kernels.gradient import Gathering, gathering
from labkit.kernels.launch import available, jit, on, once, power, rows, setting, team, tl

PIECE = 32
"""Tokens that one program adds up."""
STRIDE = 16
"""Heads that are loaded together."""


def embedding_reference(tokens: Tensor, weight: Tensor) -> Tensor:
    return F.embedding(tokens, weight)


@jit
def _put(out, key, column, width, total, mask, ADD: tl.constexpr):
    place = out + key.to(tl.int64) * width + column
    if ADD:
        total += tl.load(place, mask, other=0.0).to(tl.float32)
    tl.store(place, total.to(out.dtype.element_ty), mask)


@jit(do_not_specialize=["count"])
def _walk(
    keys, order, gradients, stride, out, heads, tails, count, width,
    ADD: tl.constexpr, PIECE: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    piece = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first = piece * PIECE
    key = tl.load(keys + first)
    comes_in = tl.load(keys + first - 1, first > 0, other=-1) == key
    total = tl.zeros([BLOCK], tl.float32)
    here = piece.to(tl.int64) * width + column
    for place in tl.range(first, tl.minimum(first + PIECE, count), num_stages=STAGES):
        source = gradients + tl.load(order + place) * stride + column
        total += tl.load(source, column < width, other=0.0).to(tl.float32)
        following = tl.load(keys + place + 1, place + 1 < count, other=-1)
        ends = following != key
        goes_out = (place + 1 == first + PIECE) & (following == key)
        tl.store(heads + here, total, column < tl.where(comes_in & (ends | goes_out), width, 0))
        tl.store(tails + here, total, column < tl.where(goes_out & (comes_in == 0), width, 0))
        _put(out, key, column, width, total, column < tl.where(ends & (comes_in == 0), width, 0), ADD)
        total = tl.where(ends, 0.0, total)
        comes_in = comes_in & (following == key)
        key = following


@jit(do_not_specialize=["count", "pieces"])
def _join(
    keys, heads, tails, out, count, pieces, width,
    ADD: tl.constexpr, PIECE: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    piece = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first, last = piece * PIECE, piece * PIECE + PIECE - 1
    key = tl.load(keys + last, last < count, other=-1)
    begins = tl.load(keys + first - 1, first > 0, other=-1) != key
    goes_on = tl.load(keys + last + 1, last + 1 < count, other=-2) == key
    if begins & goes_on:
        total = tl.load(tails + piece.to(tl.int64) * width + column, column < width, other=0.0)
        start = piece + 1
        while start < pieces:
            ahead = start + tl.arange(0, STRIDE)
            belongs = tl.load(keys + ahead * PIECE, ahead < pieces, other=-1) == key
            place = ahead.to(tl.int64)[:, None] * width + column[None, :]
            total += tl.sum(tl.load(heads + place, belongs[:, None] & (column < width)[None, :], other=0.0), 0)
            start = tl.where(tl.min(belongs.to(tl.int32), 0) == 1, start + STRIDE, pieces)
        _put(out, key, column, width, total, column < width, ADD)


def embedding_backward(tokens: Tensor, dx: Tensor, out: Tensor, *, add: bool) -> None:
    """Write the gradient of the rows that occur into out (V, D), or add it to what is there."""
    keys, order = torch.sort(tokens.flatten().to(torch.int32), stable=True)
    gradients, count, width = rows(dx), len(keys), out.shape[1]
    pieces, chosen = -(-count // PIECE), setting("embedding", width)
    block = min(chosen.elements, power(width))
    grid, heads = (pieces, -(-width // block)), torch.empty(pieces, width, dtype=torch.float32, device=dx.device)
    tails = torch.empty_like(heads)
    constants = {"ADD": add, "PIECE": PIECE, "BLOCK": block, **team(chosen.warps)}
    with on(dx.device):
        _walk[grid](
            keys,
            order,
            gradients,
            gradients.stride(0),
            out,
            heads,
            tails,
            count,
            width,
            STAGES=chosen.stages,
            **constants,
        )
        _join[grid](keys, heads, tails, out, count, pieces, width, STRIDE=STRIDE, **constants)


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor, place: Gathering | None) -> Tensor:
        ctx.save_for_backward(tokens)
        ctx.place, ctx.shape, ctx.dtype = place, weight.shape, weight.dtype
        return F.embedding(tokens, weight)

    @staticmethod
    @once
    def backward(ctx: Any, dx: Tensor) -> tuple[Any, ...]:
        (tokens,) = ctx.saved_tensors
        if ctx.place is None:
            dweight = torch.zeros(ctx.shape, dtype=ctx.dtype, device=dx.device)
            embedding_backward(tokens, dx, dweight, add=False)
            return None, dweight, None
        begins = ctx.place.begins()
        if begins:
            ctx.place.into.zero_()
        embedding_backward(tokens, dx, ctx.place.into, add=not begins)
        return None, None, None


def embedding(tokens: Tensor, weight: Tensor) -> Tensor:
    """The rows of weight (V, D) at tokens (...): (..., D)."""
    has_gradient = tokens.numel() > 0 and torch.is_grad_enabled() and weight.requires_grad
    if not (has_gradient and available(weight)):
        return embedding_reference(tokens, weight)
    return _Embedding.apply(tokens, weight, gathering(weight))
