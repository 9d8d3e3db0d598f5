"""Causal attention: softmax(cap(scale · q kᵀ) - slope · distance) v over the keys that a query sees.

It sees the last `window` keys up to its own; cap(s) = c tanh(s / c) (arXiv:2408.00118); a sink is one more logit of
each head, in the softmax's denominator alone (arXiv:2309.17453); slopes are ALiBi's (arXiv:2108.12409). As
FlashAttention-2 (arXiv:2307.08691), but dq has a pass of its own, so that nothing is added in an order that changes:
the same call gives the same bits. Keys and values of a group of heads are never repeated, and q, k, v are read where
their product left them.

B batch, T time, H heads, K key-value heads, G heads of a group, D features of a query or key, E features of a value,
N = (H + 2K) · D features of a packed product.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from labkit.kernels import attention_cudnn as cudnn
from labkit.kernels import attention_launch as launch
from labkit.kernels.launch import available, once
from labkit.kernels.rope import Rotation, rope_reference, turn
from labkit.kernels.scores import Scores


def attention_reference(
    q_BTHD: Tensor, k_BTKD: Tensor, v_BTKE: Tensor, scores: Scores, rotation: Rotation | None = None
) -> Tensor:
    """Every step written out, in fp32 or better: (B, T, H, E)."""
    if rotation is not None:
        q_BTHD, k_BTKD = (rope_reference(x, rotation) for x in (q_BTHD, k_BTKD))
    heads, shared, length, dtype = q_BTHD.shape[2], k_BTKD.shape[2], q_BTHD.shape[1], q_BTHD.dtype
    exact = torch.promote_types(dtype, torch.float32)
    q_BTKGD, k_BTKD, v_BTKE = q_BTHD.unflatten(2, (shared, -1)).to(exact), k_BTKD.to(exact), v_BTKE.to(exact)
    s_BHTS = torch.einsum("btkgd,bskd->bkgts", q_BTKGD, k_BTKD).flatten(1, 2) * scores.scale
    if scores.softcap is not None:
        s_BHTS = scores.softcap * torch.tanh(s_BHTS / scores.softcap)
    position = torch.arange(length, device=s_BHTS.device)
    distance_TS = position[:, None] - position
    if scores.slopes is not None:
        s_BHTS = s_BHTS - scores.slopes.to(exact)[:, None, None] * distance_TS
    s_BHTS = s_BHTS.masked_fill((distance_TS < 0) | (distance_TS >= (scores.window or length)), -math.inf)
    if scores.sinks is not None:
        sink_BHT1 = scores.sinks.to(exact)[:, None, None].expand(*s_BHTS.shape[:-1], 1)
        s_BHTS = torch.cat((s_BHTS, sink_BHT1), dim=-1)
    p_BKGTS = s_BHTS.softmax(-1)[..., :length].unflatten(1, (shared, heads // shared))
    return torch.einsum("bkgts,bske->btkge", p_BKGTS, v_BTKE).flatten(2, 3).to(dtype)


class _Attend(torch.autograd.Function):
    """The bridge to autograd for q, k and v that are tensors of their own."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, scores: Scores, rotation: Rotation | None
    ) -> Tensor:
        ctx.scores, ctx.rotation = scores._replace(sinks=None), rotation
        if rotation is not None:
            q, k = (_turned(x, rotation) for x in (q, k))
        out_BTHE, lse = _forward((q, k, v), scores._replace(sinks=sinks))
        ctx.save_for_backward(q, k, v, out_BTHE, lse, sinks)
        return out_BTHE

    @staticmethod
    @once
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *kept = ctx.saved_tensors
        inputs = q, k, v
        dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in inputs)
        return dq, dk, dv, _backward(ctx, inputs, kept, dout, (dq, dk, dv), (dq, dk)), None, None


class _AttendPacked(torch.autograd.Function):
    """The bridge to autograd for q, k and v in one tensor, whose gradient is one tensor too."""

    @staticmethod
    def forward(
        ctx: Any,
        qkv_BTN: Tensor,
        sinks: Tensor | None,
        heads: tuple[int, int],
        scores: Scores,
        rotation: Rotation | None,
        overwrite: bool,
    ) -> tuple[Tensor, Tensor | None]:
        ctx.heads, ctx.scores, ctx.rotation = heads, scores._replace(sinks=None), rotation
        ctx.set_materialize_grads(False)
        qk_BTHD, v_BTKD = split(qkv_BTN, heads)
        turned = None if rotation is None else _turned(qk_BTHD, rotation, overwrite)
        out_BTHD, lse = _forward(
            (*parted(qk_BTHD if turned is None else turned, heads), v_BTKD), scores._replace(sinks=sinks)
        )
        if overwrite:
            ctx.mark_dirty(qkv_BTN)
        ctx.save_for_backward(qkv_BTN, None if overwrite else turned, out_BTHD, lse, sinks)
        return out_BTHD.flatten(2), qkv_BTN if overwrite else None

    @staticmethod
    @once
    def backward(ctx: Any, dout_BTN: Tensor | None, drotated: Tensor | None) -> tuple[Tensor | None, ...]:
        qkv_BTN, inputs, kept = _kept(ctx, drotated)
        if dout_BTN is None:
            return (None,) * 6
        dqkv_BTN, gradients = _packed_like(qkv_BTN, ctx.heads)
        dout_BTHD, (dqk_BTHD, _) = dout_BTN.unflatten(-1, (ctx.heads[0], -1)), split(dqkv_BTN, ctx.heads)
        return dqkv_BTN, _backward(ctx, inputs, kept, dout_BTHD, gradients, (dqk_BTHD,)), None, None, None, None


class _AttendCudnn(torch.autograd.Function):
    """The same by cuDNN."""

    @staticmethod
    def forward(
        ctx: Any,
        qkv_BTN: Tensor,
        heads: tuple[int, int],
        scale: float,
        rotation: Rotation | None,
        overwrite: bool,
    ) -> tuple[Tensor, Tensor | None]:
        ctx.heads, ctx.scale, ctx.rotation = heads, scale, rotation
        ctx.set_materialize_grads(False)
        qk_BTHD, v_BTKD = split(qkv_BTN, heads)
        turned = None if rotation is None else _turned(qk_BTHD, rotation, overwrite)
        kept = cudnn.forward(*parted(qk_BTHD if turned is None else turned, heads), v_BTKD, scale)
        if overwrite:
            ctx.mark_dirty(qkv_BTN)
        ctx.save_for_backward(qkv_BTN, None if overwrite else turned, *kept)
        return kept[0].flatten(2), qkv_BTN if overwrite else None

    @staticmethod
    @once
    def backward(ctx: Any, dout_BTN: Tensor | None, drotated: Tensor | None) -> tuple[Tensor | None, ...]:
        qkv_BTN, inputs, kept = _kept(ctx, drotated)
        if dout_BTN is None:
            return (None,) * 5
        dqkv_BTN, gradients = _packed_like(qkv_BTN, ctx.heads)
        cudnn.backward(inputs, kept, dout_BTN.unflatten(-1, (ctx.heads[0], -1)), gradients, ctx.scale, ctx.rotation)
        return dqkv_BTN, None, None, None, None


def _kept(ctx: Any, drotated: Tensor | None) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor], tuple[Tensor, ...]]:
    """The product that a packed forward pass read, its queries, keys (turned) and values, and what else it kept.

    Asked for once: where activations are recomputed, a second time is an error.
    """
    if drotated is not None:
        raise RuntimeError("attention has overwritten its queries and keys: what reads them later has no gradient")
    qkv_BTN, turned, *kept = ctx.saved_tensors
    qk_BTHD, v_BTKD = split(qkv_BTN, ctx.heads)
    return qkv_BTN, (*parted(qk_BTHD if turned is None else turned, ctx.heads), v_BTKD), tuple(kept)


def _packed_like(qkv_BTN: Tensor, heads: tuple[int, int]) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """One new tensor, and its queries, keys and values."""
    dqkv_BTN = torch.empty(qkv_BTN.shape, dtype=qkv_BTN.dtype, device=qkv_BTN.device)
    dqk_BTHD, dv_BTKD = split(dqkv_BTN, heads)
    return dqkv_BTN, (*parted(dqk_BTHD, heads), dv_BTKD)


def split(qkv_BTN: Tensor, heads: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Views of the queries and keys (B, T, H + K, D), and of the values (B, T, K, D), of a packed product."""
    x_BTHD = qkv_BTN.unflatten(-1, (heads[0] + 2 * heads[1], -1))
    return x_BTHD[:, :, : sum(heads)], x_BTHD[:, :, sum(heads) :]


def parted(qk_BTHD: Tensor, heads: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Views of the queries, and of the keys."""
    return qk_BTHD[:, :, : heads[0]], qk_BTHD[:, :, heads[0] :]


def _turned(x_BTHD: Tensor, rotation: Rotation, overwrite: bool = False) -> Tensor:
    into = x_BTHD if overwrite else torch.empty(x_BTHD.shape, dtype=x_BTHD.dtype, device=x_BTHD.device)
    turn(x_BTHD, into, rotation)
    return into


def _forward(inputs: tuple[Tensor, Tensor, Tensor], scores: Scores) -> tuple[Tensor, Tensor]:
    q, _, v = inputs
    out_BTHE = torch.empty(*q.shape[:3], v.shape[3], dtype=q.dtype, device=q.device)
    return out_BTHE, launch.forward(*inputs, out_BTHE, scores)


def _backward(
    ctx: Any,
    inputs: tuple[Tensor, Tensor, Tensor],
    kept: Sequence[Tensor],
    dout_BTHE: Tensor,
    gradients: tuple[Tensor, Tensor, Tensor],
    turning: tuple[Tensor, ...],
) -> Tensor | None:
    """Fills the gradients, of which those `turning` are turned back; gives that of the sinks."""
    out_BTHE, lse, sinks = kept
    scores, rotation = ctx.scores._replace(sinks=sinks), ctx.rotation
    turns_along = rotation is not None and launch.turns_along(rotation, inputs[0].shape[3])
    dout_BTHE = launch.readable(dout_BTHE.contiguous())
    dsinks = launch.backward(inputs, out_BTHE, dout_BTHE, lse, gradients, scores, rotation if turns_along else None)
    if rotation is not None and not turns_along:
        for x_BTHD in turning:
            turn(x_BTHD, x_BTHD, rotation, back=True)
    return None if dsinks is None else dsinks.to(sinks.dtype)


def attend(q_BTHD: Tensor, k_BTKD: Tensor, v_BTKE: Tensor, scores: Scores, rotation: Rotation | None = None) -> Tensor:
    """What each query takes from the values up to its own: (B, T, H, E), contiguous. Queries and keys turn first.

    Any strides do; what the kernels cannot read where it lies is copied.
    """
    if not attends(q_BTHD, k_BTKD, v_BTKE, scores):
        return attention_reference(q_BTHD, k_BTKD, v_BTKE, scores, rotation)
    q_BTHD, k_BTKD, v_BTKE = (launch.readable(x) for x in (q_BTHD, k_BTKD, v_BTKE))
    return _Attend.apply(q_BTHD, k_BTKD, v_BTKE, scores.sinks, scores, rotation)


def attend_packed(
    qkv_BTN: Tensor,
    heads: tuple[int, int],
    scores: Scores,
    rotation: Rotation | None = None,
    *,
    overwrite: bool = False,
) -> Tensor:
    """The same for (H, K) heads in one tensor of features q, k, v: (B, T, H · D), and one gradient (B, T, N).

    `overwrite` lets queries and keys turn where they lie, which saves a copy of both; autograd is told.
    """
    qk_BTHD, v_BTKD = split(qkv_BTN, heads)
    inputs = (*parted(qk_BTHD, heads), v_BTKD)
    if not attends(*inputs, scores):
        return attention_reference(*inputs, scores, rotation).flatten(2)
    whole_BTHD = qkv_BTN.unflatten(-1, (-1, v_BTKD.shape[3]))
    if (copy_BTHD := launch.readable(whole_BTHD)) is not whole_BTHD:
        qkv_BTN = copy_BTHD.flatten(2)
    is_given = torch.is_grad_enabled() and ((qkv_BTN.is_leaf and qkv_BTN.requires_grad) or qkv_BTN._is_view())
    overwrite = overwrite and rotation is not None and not is_given
    if cudnn.cudnn_is_faster(whole_BTHD.shape[3], whole_BTHD.shape[1], scores) and qkv_BTN.itemsize == 2:
        return _AttendCudnn.apply(qkv_BTN, heads, scores.scale, rotation, overwrite)[0]
    return _AttendPacked.apply(qkv_BTN, scores.sinks, heads, scores, rotation, overwrite)[0]


def attends(q_BTHD: Tensor, k_BTKD: Tensor, v_BTKE: Tensor, scores: Scores) -> bool:
    """Whether the kernels compute `attend`, and not its reference."""
    is_available = available(q_BTHD, k_BTKD, v_BTKE, scores.sinks)
    return is_available and launch.unsupported(q_BTHD, k_BTKD, v_BTKE, scores) is None


def attends_packed(qkv_BTN: Tensor, heads: tuple[int, int], scores: Scores) -> bool:
    """Whether the kernels compute `attend_packed`, and not its reference."""
    qk_BTHD, v_BTKD = split(qkv_BTN, heads)
    return attends(*parted(qk_BTHD, heads), v_BTKD, scores)
