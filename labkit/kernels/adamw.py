# pyright: basic, reportInvalidTypeForm=false
"""AdamW on all parameters in one launch: clipping, decay, both means, the master and the copy that the model reads.

g ← g / max(1, norm / clip)
m ← m + (1 - β₁) (g - m),  v ← β₂ v + (1 - β₂) g²
w ← w - lr λ w - lr m̂ / (√v̂ + eps),  m̂ = m / (1 - β₁ᵗ),  v̂ = v / (1 - β₂ᵗ)          (arXiv:1711.05101)
copy ← round(w)                                            and nothing at all while `frozen` is not zero
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from labkit.kernels.launch import available, jit, on, setting, team, tl
from labkit.kernels.table import pieces

FIELDS = 7
"""Of a row of the table: master, gradient, mean, square, copy (addresses), count, group."""


class Slot(NamedTuple):
    """One parameter; the tensors are contiguous and of one shape."""

    master: Tensor
    gradient: Tensor
    mean: Tensor
    square: Tensor
    copy: Tensor | None
    """What the model computes with, where that is not the master itself."""
    group: int
    """Whose rate and decay it takes."""


class Table:
    """Where all parameters of one optimizer lie, for as long as they lie there."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = list(slots)
        tensors = [tensor for slot in slots for tensor in slot[:5] if tensor is not None]
        gradients, copies = {s.gradient.dtype for s in slots}, {s.copy.dtype for s in slots if s.copy is not None}
        exact = all(tensor.dtype == torch.float32 for slot in slots for tensor in (slot.master, slot.mean, slot.square))
        plain = exact and len(gradients) == 1 and len(copies) <= 1 and all(tensor.is_contiguous() for tensor in tensors)
        self.chunk = setting("adamw", 1)
        self.rows: Tensor | None = None
        if plain and available(*tensors):
            self.kinds = gradients.pop(), copies.pop() if copies else torch.bfloat16
            rows = [pieces(slot[:5], self.chunk.elements, slot.group) for slot in slots]
            self.rows = torch.cat(rows).to(tensors[0].device)


def adamw_reference(
    table: Table, *, rates: Tensor, decays: Tensor, step: Tensor, betas: tuple[float, float], eps: float,
    norm: Tensor, clip: float, frozen: Tensor,
) -> None:  # fmt: skip
    row = rates[(step - 1).clamp(max=len(rates) - 1).long()]
    corrections = [1 - beta ** step.double() for beta in betas]
    for slot in table.slots:
        lr, decay, dtype = row[slot.group], decays[slot.group], slot.master.dtype
        g = slot.gradient.to(dtype) / (norm / clip).clamp(min=1).to(dtype)
        mean = slot.mean.lerp(g, 1 - betas[0])
        square = betas[1] * slot.square + (1 - betas[1]) * g.square()
        first, second = (correction.to(dtype) for correction in corrections)
        master = slot.master * (1 - lr * decay) - lr / first * mean / ((square / second).sqrt() + eps)
        for old, new in ((slot.mean, mean), (slot.square, square), (slot.master, master)):
            torch.where(frozen.bool(), old, new.to(dtype), out=old)
        if slot.copy is not None:
            slot.copy.copy_(slot.master)


@jit
def _move(
    row, mask, lr, decay, divisor, first, second, rest1, beta2, rest2, eps,
    GRADIENT: tl.constexpr, COPY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.arange(0, BLOCK)
    master = tl.multiple_of(tl.load(row).to(tl.pointer_type(tl.float32)), 16) + place
    gradient = tl.multiple_of(tl.load(row + 1).to(tl.pointer_type(GRADIENT)), 16) + place
    mean = tl.multiple_of(tl.load(row + 2).to(tl.pointer_type(tl.float32)), 16) + place
    square = tl.multiple_of(tl.load(row + 3).to(tl.pointer_type(tl.float32)), 16) + place
    address = tl.load(row + 4)
    g = tl.load(gradient, mask).to(tl.float32) / divisor
    m = tl.load(mean, mask)
    m += rest1 * (g - m)
    v = beta2 * tl.load(square, mask) + rest2 * g * g
    w = tl.load(master, mask) * (1.0 - lr * decay) - lr / first * m / (tl.sqrt(v / second) + eps)
    tl.store(mean, m, mask)
    tl.store(square, v, mask)
    tl.store(master, w, mask)
    if address != 0:
        tl.store(tl.multiple_of(address.to(tl.pointer_type(COPY)), 16) + place, w.to(COPY), mask)


@jit(do_not_specialize=["last"])
def _step(
    table, rates, decays, step, norm, frozen, last, groups, clip, rest1, log1, beta2, rest2, log2, eps,
    GRADIENT: tl.constexpr, COPY: tl.constexpr, FIELDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = table + tl.program_id(0).to(tl.int64) * FIELDS
    count = tl.load(row + 5)
    group = tl.load(row + 6)
    t = tl.load(step).to(tl.int64)
    lr = tl.load(rates + tl.minimum(t - 1, last) * groups + group)
    decay = tl.load(decays + group)
    first = (1.0 - tl.exp(t.to(tl.float64) * log1)).to(tl.float32)
    second = (1.0 - tl.exp(t.to(tl.float64) * log2)).to(tl.float32)
    divisor = tl.maximum(tl.load(norm).to(tl.float32) / clip, 1.0)
    if tl.load(frozen).to(tl.float32) == 0.0:
        if count == BLOCK:
            _move(row, None, lr, decay, divisor, first, second, rest1, beta2, rest2, eps, GRADIENT, COPY, BLOCK)
        else:
            mask = tl.arange(0, BLOCK) < count
            _move(row, mask, lr, decay, divisor, first, second, rest1, beta2, rest2, eps, GRADIENT, COPY, BLOCK)


def adamw(
    table: Table, *, rates: Tensor, decays: Tensor, step: Tensor, betas: tuple[float, float], eps: float,
    norm: Tensor, clip: float | None, frozen: Tensor,
) -> None:  # fmt: skip
    """Make one update of all parameters; nothing of it waits for the device, and nothing changes while frozen.

    `rates` (steps, groups) has the learning rates of every step, or one row for all; `decays` (groups,) and `rates` are
    fp32. `step` is the number of this update, from 1; `norm` that of the whole gradient; both and `frozen` are scalars.
    """
    bound = math.inf if clip is None else float(clip)
    if table.rows is None:
        adamw_reference(
            table, rates=rates, decays=decays, step=step, betas=betas, eps=eps, norm=norm, clip=bound, frozen=frozen
        )
        return
    kinds = [getattr(tl, str(kind).removeprefix("torch.")) for kind in table.kinds]
    of_betas = [value for beta in betas for value in (float(beta), 1.0 - beta, math.log(beta) if beta else -math.inf)][
        1:
    ]
    with on(table.rows.device):
        _step[(len(table.rows),)](
            table.rows, rates, decays, step, norm, frozen, len(rates) - 1, rates.shape[1], bound, *of_betas, float(eps),
            GRADIENT=kinds[0], COPY=kinds[1], FIELDS=FIELDS, BLOCK=table.chunk.elements,
            **team(table.chunk.warps),
        )  # fmt: skip
