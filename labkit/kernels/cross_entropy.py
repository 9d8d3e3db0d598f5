# pyright: basic, reportInvalidTypeForm=false
"""Cross-entropy of each row, with its gradient written where the logits stood.

    x the logits, capped: c tanh(x / c);  p = exp(x - lse), lse = ln Σ exp(x);  t the target, ε smoothing, V words
    loss = (1 - ε) (lse - x_t) + ε (lse - mean x) + z lse²                           0 where the target is -100
    dx_v = p_v (1 + 2 z lse) - ε / V - (1 - ε) [v = t]

Near p_t = 1 that is a small difference. So all is measured from x_t: r = Σ_{v≠t} exp(x_v - x_t), lse - x_t = log1p(r),
p_t - 1 = -r / (1 + r). Only where r would overflow is the highest logit looked for.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.kernels.launch import available, jit, multiprocessors, on, once, power, rows, setting, team, tl

IGNORED = -100
"""A target that is not scored."""
SKIPPED = tl.constexpr(IGNORED)
LOWEST = tl.constexpr(-3.0e38)
LOG2E, LN2 = tl.constexpr(math.log2(math.e)), tl.constexpr(math.log(2))
FAR = tl.constexpr(1e30)
"""A target so improbable that its own logit is no measure for the others."""


def cross_entropy_reference(
    logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, z: float = 0.0, softcap: float | None = None
) -> Tensor:
    x_NV = logits.flatten(0, -2).to(torch.promote_types(logits.dtype, torch.float32))
    if softcap is not None:
        x_NV = softcap * torch.tanh(x_NV / softcap)
    losses = F.cross_entropy(x_NV, targets.flatten(), reduction="none", label_smoothing=smoothing, ignore_index=IGNORED)
    losses = losses.view_as(targets)
    if z == 0.0:
        return losses
    return losses + z * torch.logsumexp(x_NV, dim=-1).square().view_as(targets) * (targets != IGNORED)


@jit
def _capped(x, cap, CAP: tl.constexpr):
    if CAP:
        x = tl.sigmoid(x * (2.0 / cap)) * (2.0 * cap) - cap
    return x


@jit
def _block(logits, column, vocab, cap, CAP: tl.constexpr):
    """Capped logits in fp32, -inf beyond the last."""
    x = tl.load(logits + column, column < vocab, other=float("-inf")).to(tl.float32)
    if CAP:
        x = tl.where(column < vocab, _capped(x, cap, CAP), float("-inf"))
    return x


@jit
def _highest(logits, vocab, cap, CAP: tl.constexpr, BLOCK: tl.constexpr):
    highest = tl.full([BLOCK], LOWEST, tl.float32)
    for first in range(0, vocab, BLOCK):
        highest = tl.maximum(highest, _block(logits, first + tl.arange(0, BLOCK), vocab, cap, CAP))
    return tl.max(highest, 0)


@jit
def _others(logits, target, vocab, shift, cap, CAP: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Σ 2^(x_v log₂e - shift) over all words but the target."""
    others = tl.zeros([BLOCK], tl.float32)
    for first in tl.range(0, vocab, BLOCK, num_stages=STAGES):
        column = first + tl.arange(0, BLOCK)
        x = _block(logits, column, vocab, cap, CAP)
        if (target >= first) & (target < first + BLOCK):
            x = tl.where(column == target, float("-inf"), x)
        others += tl.exp2(x * LOG2E - shift)
    return tl.sum(others, 0)


@jit
def _sum(logits, vocab, cap, CAP: tl.constexpr, BLOCK: tl.constexpr):
    sums = tl.zeros([BLOCK], tl.float32)
    for first in range(0, vocab, BLOCK):
        column = first + tl.arange(0, BLOCK)
        sums += tl.where(column < vocab, _block(logits, column, vocab, cap, CAP), 0.0)
    return tl.sum(sums, 0)


@jit
def _log1p(u):
    """ln(1 + u), also where u is small."""
    more = 1.0 + u
    return tl.where(more == 1.0, u, tl.log(more) * (u / tl.where(more == 1.0, 1.0, more - 1.0)))


@jit
def _forward(
    logits, stride, targets, losses, gradients, gradient_stride, vocab, cap, smoothing, z, scale,
    CAP: tl.constexpr, SMOOTH: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    target = tl.load(targets + row)
    if target == SKIPPED:
        tl.store(losses + row, 0.0)
        if gradients is not None:
            for first in range(0, vocab, BLOCK):
                column = first + tl.arange(0, BLOCK)
                zero = tl.zeros([BLOCK], tl.float32).to(gradients.dtype.element_ty)
                tl.store(gradients + row * gradient_stride + column, zero, column < vocab)
    else:
        known = (target >= 0) & (target < vocab)
        x_t = _capped(tl.load(logits + target, known, other=float("nan")).to(tl.float32), cap, CAP)
        shift = x_t * LOG2E
        rest = _others(logits, target, vocab, shift, cap, CAP, BLOCK, STAGES)
        if (rest < FAR) == 0:
            shift = _highest(logits, vocab, cap, CAP, BLOCK) * LOG2E
            rest = _others(logits, target, vocab, shift, cap, CAP, BLOCK, STAGES)
        own = tl.exp2(x_t * LOG2E - shift)
        total = rest + own
        surprise = tl.where(
            own >= rest, _log1p(rest / tl.maximum(own, rest)), tl.log(total) + (shift - x_t * LOG2E) * LN2
        )
        lse = x_t + surprise
        loss = surprise + z * lse * lse
        if SMOOTH:
            loss += smoothing * (x_t - _sum(logits, vocab, cap, CAP, BLOCK) / vocab)
        tl.store(losses + row, loss * scale)
        if gradients is not None:
            gradients += row * gradient_stride
            factor = scale * (1.0 + 2.0 * z * lse) / total
            even = scale * smoothing / vocab
            for first in tl.range(0, vocab, BLOCK, num_stages=STAGES):
                column = first + tl.arange(0, BLOCK)
                again = tl.load(logits + column, column < vocab, other=0.0, eviction_policy="evict_first")
                x = _capped(again.to(tl.float32), cap, CAP)
                gradient = tl.exp2(x * LOG2E - shift) * factor
                if SMOOTH:
                    gradient -= even
                if CAP:
                    gradient *= 1.0 - (x / cap) * (x / cap)
                kind = gradients.dtype.element_ty
                tl.store(gradients + column, gradient.to(kind), column < vocab, cache_modifier=".cs")
            aimed = scale * (smoothing - rest / total + 2.0 * z * lse * (own / total)) - even
            if CAP:
                aimed *= 1.0 - (x_t / cap) * (x_t / cap)
            tl.debug_barrier()
            tl.store(gradients + target, aimed.to(gradients.dtype.element_ty), known)


@jit(do_not_specialize=["count"])
def _multiplied(gradients, stride, factors, factor_stride, count, vocab, BLOCK: tl.constexpr):
    for row in range(tl.program_id(0).to(tl.int64), count, tl.num_programs(0)):
        factor = tl.load(factors + row * factor_stride).to(tl.float32)
        if factor != 1.0:
            for first in range(0, vocab, BLOCK):
                place = gradients + row * stride + first + tl.arange(0, BLOCK)
                mask = first + tl.arange(0, BLOCK) < vocab
                value = tl.load(place, mask, other=0.0).to(tl.float32) * factor
                tl.store(place, value.to(gradients.dtype.element_ty), mask)


def launch_losses(
    logits_NV: Tensor, targets_N: Tensor, losses_N: Tensor, gradient_NV: Tensor | None,
    *, smoothing: float, z: float, softcap: float | None, scale: float,
) -> None:  # fmt: skip
    """Write losses and gradient, both times the scale; the gradient may stand where the logits do."""
    count, vocab = logits_NV.shape
    chosen = setting("cross_entropy", vocab)
    with on(logits_NV.device):
        _forward[(count,)](
            logits_NV, logits_NV.stride(0), targets_N, losses_N,
            gradient_NV, 0 if gradient_NV is None else gradient_NV.stride(0),
            vocab, float(softcap or 1), float(smoothing), float(z), float(scale),
            CAP=softcap is not None, SMOOTH=smoothing > 0,
            BLOCK=min(chosen.elements, power(vocab)), STAGES=chosen.stages, **team(chosen.warps),
        )  # fmt: skip


class _CrossEntropy(torch.autograd.Function):
    """Losses; and the logits, where these are written over, so that a gradient that comes to them can be refused."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, scale: float, overwrite: bool, options: Any) -> Any:
        matrix, targets_N = rows(logits), targets.reshape(-1).contiguous()
        losses = torch.empty(targets.shape, dtype=torch.float32, device=logits.device)
        gradient = None
        if ctx.needs_input_grad[0]:
            gradient = matrix if overwrite else torch.empty_like(matrix, memory_format=torch.contiguous_format)
        launch_losses(matrix, targets_N, losses, gradient, scale=scale, **options)
        ctx.gradient, ctx.shape = gradient, logits.shape
        ctx.set_materialize_grads(False)
        if not (overwrite and ctx.needs_input_grad[0]):
            return losses, None
        ctx.mark_dirty(logits)
        return losses, logits

    @staticmethod
    @once
    def backward(ctx: Any, dlosses: Tensor | None, dlogits: Tensor | None) -> tuple[Any, ...]:
        if dlogits is not None:
            raise RuntimeError(
                "cross_entropy(..., overwrite=True) left a gradient where these logits stood: compute nothing else "
                "from them, or write overwrite=False"
            )
        gradient, ctx.gradient = ctx.gradient, None
        if gradient is None:
            raise RuntimeError("the gradient of cross_entropy is given away: go backward through it once")
        assert dlosses is not None
        multiply(gradient, dlosses)
        return gradient.view(ctx.shape), None, None, None, None


def multiply(gradient_NV: Tensor, factors: Tensor) -> None:
    """Multiply each row, or all of them by one factor, in place; where that is one nothing is read."""
    count, vocab = gradient_NV.shape
    factors_N = factors.expand(count) if factors.ndim == 0 else factors.reshape(-1)
    with on(gradient_NV.device):
        _multiplied[(min(count, 16 * multiprocessors(gradient_NV.device)),)](
            gradient_NV, gradient_NV.stride(0), factors_N, factors_N.stride(0), count, vocab,
            BLOCK=min(4096, power(vocab)), **team(4),
        )  # fmt: skip


def cross_entropy(
    logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, z: float = 0.0, softcap: float | None = None,
    scale: float = 1.0, overwrite: bool = False,
) -> Tensor:  # fmt: skip
    """The losses (...) of logits (..., V) and targets (...), in nats and fp32, times the scale; 0 at a target of -100.

    With `overwrite` the gradient takes the place of the logits, which hold nothing else afterwards, where autograd
    allows that: not in a leaf or a view. A gradient of one (`.sum()`, the mean being in the scale) costs no other pass.
    """
    options = {"smoothing": smoothing, "z": z, "softcap": softcap}
    if not available(logits) or targets.device != logits.device:
        return scale * cross_entropy_reference(logits, targets, **options)
    is_own = logits.is_contiguous() and not logits.is_leaf and not logits._is_view()
    return _CrossEntropy.apply(logits, targets, scale, overwrite and is_own, options)[0]
