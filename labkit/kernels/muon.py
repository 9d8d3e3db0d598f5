# pyright: basic, reportInvalidTypeForm=false
"""What Muon does before and after its products, for all matrices in one launch each.

ahead: m ← m + (1 - μ) (g - m),  a = g + μ (m - g), or m without Nesterov       g divided by what clips it
move:  w ← w - lr (λ w + f u),  copy ← round(w)                    nothing but a changes while `frozen` is not zero
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from labkit.kernels.launch import available, jit, on, setting, team, tl
from labkit.kernels.table import pieces

FIELDS = 8
"""Of a row of the table: master, gradient, momentum, stacked, copy (addresses), count, group, shape."""


class Matrix(NamedTuple):
    """One matrix; the tensors are contiguous and of one shape."""

    master: Tensor
    gradient: Tensor
    momentum: Tensor
    stacked: Tensor
    """Where what comes before the products is left, and what they give is found: in a stack of equal shapes."""
    copy: Tensor | None
    """What the model computes with, where that is not the master itself."""
    group: int
    """Whose rate and decay it takes."""
    shape: int
    """Whose factor it takes."""


class Matrices:
    """Where all matrices of one optimizer lie, for as long as they lie there."""

    def __init__(self, matrices: Sequence[Matrix]) -> None:
        self.chunk = setting("adamw", 1)
        copies = {matrix.copy.dtype for matrix in matrices if matrix.copy is not None}
        self.kind = copies.pop() if copies else torch.bfloat16
        rows = [pieces(matrix[:5], self.chunk.elements, matrix.group, matrix.shape) for matrix in matrices]
        self.rows = torch.cat(rows).to(matrices[0].master.device)


def fits(tensors: Sequence[Tensor | None]) -> bool:
    """Whether the kernels take a matrix: (master, gradient, momentum, copy)."""
    exact = all(tensor is not None and tensor.dtype == torch.float32 for tensor in tensors[:3])
    return exact and available(*tensors) and all(tensor is None or tensor.is_contiguous() for tensor in tensors)


@jit
def _look_ahead(row, mask, divisor, moves, beta, rest, NESTEROV: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    gradient = tl.multiple_of(tl.load(row + 1).to(tl.pointer_type(tl.float32)), 16) + place
    momentum = tl.multiple_of(tl.load(row + 2).to(tl.pointer_type(tl.float32)), 16) + place
    stacked = tl.multiple_of(tl.load(row + 3).to(tl.pointer_type(tl.float32)), 16) + place
    g = tl.load(gradient, mask) / divisor
    before = tl.load(momentum, mask)
    m = before + rest * (g - before)
    tl.store(momentum, tl.where(moves, m, before), mask)
    if NESTEROV:
        m = g + beta * (m - g)
    tl.store(stacked, m, mask)


@jit
def _ahead(
    table, norm, frozen, beta, rest, NESTEROV: tl.constexpr, FIELDS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    count = tl.load(row + 5)
    divisor = tl.load(norm).to(tl.float32)
    moves = tl.load(frozen).to(tl.float32) == 0.0
    if count == BLOCK:
        _look_ahead(row, None, divisor, moves, beta, rest, NESTEROV, BLOCK)
    else:
        _look_ahead(row, tl.arange(0, BLOCK) < count, divisor, moves, beta, rest, NESTEROV, BLOCK)


@jit
def _step(row, mask, lr, decay, factor, COPY: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    master = tl.multiple_of(tl.load(row).to(tl.pointer_type(tl.float32)), 16) + place
    stacked = tl.multiple_of(tl.load(row + 3).to(tl.pointer_type(tl.float32)), 16) + place
    address = tl.load(row + 4)
    w = tl.load(master, mask)
    w -= lr * (decay * w + factor * tl.load(stacked, mask))
    tl.store(master, w, mask)
    if address != 0:
        tl.store(tl.multiple_of(address.to(tl.pointer_type(COPY)), 16) + place, w.to(COPY), mask)


@jit
def _move(
    table, rates, decays, factors, frozen, COPY: tl.constexpr, FIELDS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    count, group = tl.load(row + 5), tl.load(row + 6)
    lr, decay = tl.load(rates + group), tl.load(decays + group)
    factor = tl.load(factors + tl.load(row + 7))
    if tl.load(frozen).to(tl.float32) == 0.0:
        if count == BLOCK:
            _step(row, None, lr, decay, factor, COPY, BLOCK)
        else:
            _step(row, tl.arange(0, BLOCK) < count, lr, decay, factor, COPY, BLOCK)


def ahead(table: Matrices, *, divisor: Tensor, frozen: Tensor, momentum: float, nesterov: bool) -> None:
    """Move the means, and leave what is to be made orthogonal in the stacks."""
    with on(table.rows.device):
        _ahead[(len(table.rows),)](
            table.rows, divisor, frozen, float(momentum), 1.0 - momentum,
            NESTEROV=nesterov, FIELDS=FIELDS, BLOCK=table.chunk.elements, **team(table.chunk.warps),
        )  # fmt: skip


def move(table: Matrices, *, rates: Tensor, decays: Tensor, factors: Tensor, frozen: Tensor) -> None:
    """Move the masters by what is in the stacks, and round them into the copies.

    `rates` and `decays` (groups,) and `factors` (shapes,) are fp32.
    """
    kind = getattr(tl, str(table.kind).removeprefix("torch."))
    with on(table.rows.device):
        _move[(len(table.rows),)](
            table.rows, rates, decays, factors, frozen,
            COPY=kind, FIELDS=FIELDS, BLOCK=table.chunk.elements, **team(table.chunk.warps),
        )  # fmt: skip
