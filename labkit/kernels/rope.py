# pyright: basic, reportInvalidTypeForm=false
"""Rotary positions: (a, b) -> (a cos - b sin, b cos + a sin) for each pair of features (arXiv:2104.09864).

A pair is features i and i + R of a head, or 2i and 2i + 1; features beyond the first 2R pass unchanged. In fp32; in
place, so that a rotated feature in bf16 moves 4 bytes. Turned back, with -sin, for the gradient.

B batch, T time, H heads, D features, R pairs that turn.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from labkit.kernels.launch import available, jit, on, once, power, team, tl

TILE = 4096
"""Pairs that one program turns."""


class Rotation(NamedTuple):
    """The cosines and sines of the angles of every position, (T, R) each, fp32 and contiguous; what makes a pair."""

    cos: Tensor
    sin: Tensor
    interleaved: bool = False
    """Features 2i and 2i + 1 turn together; otherwise i and i + R."""


def rope_reference(x_BTHD: Tensor, rotation: Rotation) -> Tensor:
    """In fp32 or better."""
    cos, sin = (wave.unsqueeze(1) for wave in rotation[:2])
    turning = x_BTHD[..., : 2 * cos.shape[-1]].to(torch.promote_types(x_BTHD.dtype, cos.dtype))
    axis = -1 if rotation.interleaved else -2
    a, b = turning.unflatten(-1, (-1, 2) if rotation.interleaved else (2, -1)).unbind(axis)
    turned = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=axis).flatten(-2).to(x_BTHD.dtype)
    return torch.cat((turned, x_BTHD[..., turned.shape[-1] :]), dim=-1)


@jit(do_not_specialize=("length", "heads"))
def _turn(
    x, y, cos, sin, x_b, x_t, x_h, y_b, y_t, y_h, length, heads,
    D: tl.constexpr, R: tl.constexpr, ROWS: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
    INTERLEAVED: tl.constexpr, BACK: tl.constexpr, COPIES: tl.constexpr,
):  # fmt: skip
    """Turns ROWS tokens of HEADS heads; copies what does not turn where x and y are not one."""
    strips = tl.cdiv(length, ROWS)
    b = (tl.program_id(0) // strips).to(tl.int64)
    row = tl.program_id(0) % strips * ROWS + tl.arange(0, ROWS)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    pair = tl.arange(0, WIDTH)
    far_row, far_head = row.to(tl.int64)[:, None, None], head.to(tl.int64)[None, :, None]
    x_RH1 = x + b * x_b + far_row * x_t + far_head * x_h
    y_RH1 = y + b * y_b + far_row * y_t + far_head * y_h
    inside = (row < length)[:, None, None] & (head < heads)[None, :, None]
    known = (row < length)[:, None] & (pair < R)[None, :]
    c = tl.load(cos + row[:, None] * R + pair[None, :], mask=known, other=0.0)[:, None, :]
    s = tl.load(sin + row[:, None] * R + pair[None, :], mask=known, other=0.0)[:, None, :]
    if BACK:
        s = -s
    if INTERLEAVED:
        feature = tl.arange(0, 2 * WIDTH)[None, None, :]
        turns = inside & (feature < 2 * R)
        a, z = tl.split(tl.reshape(tl.load(x_RH1 + feature, mask=turns, other=0.0), (ROWS, HEADS, WIDTH, 2)))
        a, z = a.to(tl.float32), z.to(tl.float32)
        turned = tl.reshape(tl.join(a * c - z * s, z * c + a * s), (ROWS, HEADS, 2 * WIDTH))
        tl.store(y_RH1 + feature, turned.to(y.dtype.element_ty), mask=turns)
    else:
        feature = pair[None, None, :]
        turns = inside & (feature < R)
        a = tl.load(x_RH1 + feature, mask=turns, other=0.0).to(tl.float32)
        z = tl.load(x_RH1 + R + feature, mask=turns, other=0.0).to(tl.float32)
        tl.store(y_RH1 + feature, (a * c - z * s).to(y.dtype.element_ty), mask=turns)
        tl.store(y_RH1 + R + feature, (z * c + a * s).to(y.dtype.element_ty), mask=turns)
    if COPIES:
        for first in tl.static_range(2 * R, D, WIDTH):
            feature = first + tl.arange(0, WIDTH)[None, None, :]
            rest = inside & (feature < D)
            tl.store(y_RH1 + feature, tl.load(x_RH1 + feature, mask=rest), mask=rest)


def turn(x_BTHD: Tensor, into_BTHD: Tensor, rotation: Rotation, *, back: bool = False) -> None:
    """Writes the rotated x into `into`, which may be x itself; autograd does not see it."""
    x_BTHD = x_BTHD if x_BTHD.stride(3) == 1 else x_BTHD.contiguous()
    batch, length, heads, features = x_BTHD.shape
    pairs = rotation.cos.shape[1]
    width = power(pairs)
    across = min(power(heads), max(TILE // width, 1))
    deep = max(TILE // (width * across), 1)
    with on(x_BTHD.device):
        _turn[(batch * -(-length // deep), -(-heads // across))](
            x_BTHD, into_BTHD, rotation.cos, rotation.sin, *x_BTHD.stride()[:3], *into_BTHD.stride()[:3],
            length=length, heads=heads, D=features, R=pairs, ROWS=deep, HEADS=across, WIDTH=width,
            INTERLEAVED=rotation.interleaved, BACK=back, COPIES=x_BTHD.data_ptr() != into_BTHD.data_ptr(), **team(4),
        )  # fmt: skip


class _Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_BTHD: Tensor, rotation: Rotation) -> Tensor:
        ctx.rotation = rotation
        turned_BTHD = torch.empty(x_BTHD.shape, dtype=x_BTHD.dtype, device=x_BTHD.device)
        turn(x_BTHD, turned_BTHD, rotation)
        return turned_BTHD

    @staticmethod
    @once
    def backward(ctx: Any, dturned_BTHD: Tensor) -> tuple[Tensor, None]:
        dx_BTHD = torch.empty(dturned_BTHD.shape, dtype=dturned_BTHD.dtype, device=dturned_BTHD.device)
        turn(dturned_BTHD, dx_BTHD, ctx.rotation, back=True)
        return dx_BTHD, None


def rope(x_BTHD: Tensor, rotation: Rotation) -> Tensor:
    """x with the first 2R features of every head turned by the angles of positions 0 … T - 1; x itself stays."""
    if available(x_BTHD):
        return _Rope.apply(x_BTHD, rotation)
    return rope_reference(x_BTHD, rotation)
