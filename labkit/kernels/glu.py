# pyright: basic, reportInvalidTypeForm=false
"""Gated units on one tensor that holds gate and up side by side, as one product leaves them.

y = a(gate) · up        a: silu (SwiGLU), gelu (GEGLU), relu (ReGLU), sigmoid (GLU), identity (bilinear)
dgate = dy · up · a'(gate),  dup = dy · a(gate)        side by side again, from what the forward pass read
"""

from typing import Any

import torch
from torch import Tensor

from labkit.kernels.activation import Activation, activated, activation_reference, slope
from labkit.kernels.launch import available, jit, on, once, rows, setting, team, tl


def glu_reference(packed: Tensor, kind: Activation) -> Tensor:
    gate, up = packed.chunk(2, dim=-1)
    return activation_reference(gate, kind) * up


@jit(do_not_specialize=["n_rows", "blocks"])
def _forward(packed, stride, y, n_rows, width, blocks, KIND: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    row = ((program // blocks).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    column = (program % blocks * BLOCK + tl.arange(0, BLOCK))[None, :]
    mask = (row < n_rows) & (column < width)
    gate = tl.load(packed + row * stride + column, mask, other=0.0).to(tl.float32)
    up = tl.load(packed + row * stride + width + column, mask, other=0.0).to(tl.float32)
    tl.store(y + row * width + column, (activated(gate, KIND) * up).to(y.dtype.element_ty), mask)


@jit(do_not_specialize=["n_rows", "blocks"])
def _backward(
    dy, dy_stride, packed, stride, dpacked, n_rows, width, blocks,
    KIND: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    row = ((program // blocks).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    column = (program % blocks * BLOCK + tl.arange(0, BLOCK))[None, :]
    mask = (row < n_rows) & (column < width)
    kind = dpacked.dtype.element_ty
    gradient = tl.load(dy + row * dy_stride + column, mask, other=0.0).to(tl.float32)
    gate = tl.load(packed + row * stride + column, mask, other=0.0).to(tl.float32)
    up = tl.load(packed + row * stride + width + column, mask, other=0.0).to(tl.float32)
    opened = activated(gate, KIND)
    out = row * 2 * width + column
    tl.store(dpacked + out, (gradient * up * slope(gate, KIND)).to(kind), mask)
    tl.store(dpacked + out + width, (gradient * opened).to(kind), mask)


def _tile(count: int, width: int) -> tuple[int, int, dict[str, int]]:
    """How many programs, how many of them for a row, and their constants: columns that waste little of a row."""
    chosen = setting("glu", width)
    sizes = [size for size in (2048, 1024, 512, 256, 128) if size <= chosen.elements]
    block = next((size for size in sizes if -(-width // size) * size <= 1.07 * width), sizes[-1])
    tile, blocks = chosen.elements // block, -(-width // block)
    return -(-count // tile) * blocks, blocks, {"ROWS": tile, "BLOCK": block, **team(chosen.warps)}


def glu_forward(packed: Tensor, kind: Activation) -> Tensor:
    """a(gate) · up of packed (..., 2 · width), by the kernel."""
    matrix, width = rows(packed), packed.shape[-1] // 2
    y = torch.empty(*packed.shape[:-1], width, dtype=packed.dtype, device=packed.device)
    programs, blocks, tile = _tile(len(matrix), width)
    with on(packed.device):
        _forward[(programs,)](matrix, matrix.stride(0), y, len(matrix), width, blocks, KIND=kind, **tile)
    return y


def glu_backward(dy: Tensor, packed: Tensor, kind: Activation) -> Tensor:
    """The gradient of packed."""
    matrix, upstream, width = rows(packed), rows(dy), packed.shape[-1] // 2
    dpacked = torch.empty_like(packed, memory_format=torch.contiguous_format)
    programs, blocks, tile = _tile(len(matrix), width)
    with on(packed.device):
        _backward[(programs,)](
            upstream, upstream.stride(0), matrix, matrix.stride(0), dpacked, len(matrix), width, blocks,
            KIND=kind, **tile,
        )  # fmt: skip
    return dpacked


class _Glu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, packed: Tensor, kind: Activation) -> Tensor:
        ctx.kind = kind
        ctx.save_for_backward(packed)
        return glu_forward(packed, kind)

    @staticmethod
    @once
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        (packed,) = ctx.saved_tensors
        return glu_backward(dy, packed, ctx.kind), None


def glu(packed: Tensor, kind: Activation) -> Tensor:
    """a(gate) · up (..., width) of packed (..., 2 · width), the gate first."""
    is_taken = available(packed) and packed.shape[-1] % 2 == 0
    return _Glu.apply(packed, kind) if is_taken else glu_reference(packed, kind)
