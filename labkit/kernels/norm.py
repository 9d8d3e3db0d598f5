# pyright: basic, reportInvalidTypeForm=false
"""RMSNorm and LayerNorm, alone or with the residual sum before them, in one pass forward and one backward.

t = x₁ + … + xₙ                                   rounded once
llama   y = round((t / √(mean t² + eps))) · g
gemma   y = round(t / √(mean t² + eps) · (1 + g))
layer   y = round((t - mean t) / √(var t + eps) · g + b)

n̂ what is multiplied by g, w its factor, ȳ = Σ dy over the uses
dx = dt + r (w ȳ - n̂ mean(w ȳ n̂) - mean(w ȳ))    r the reciprocal root; the last term for LayerNorm only
dg = Σ ȳ n̂,  db = Σ ȳ                             fp32, over a bounded number of partial rows in fixed order
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.kernels.gradient import Gathering, gathering
from labkit.kernels.launch import Setting, available, jit, multiprocessors, on, once, power, rows, setting, team, tl

Casting = Literal["llama", "gemma"]

WIDEST = 16384
"""A row is held by one program."""
FOLDED = 8
"""Features that one program sums the partial rows of."""
MOST = 4
"""Parts that a kernel adds; what goes beyond is added before it."""


def rms_norm_reference(x: Tensor, gain: Tensor | None, *, eps: float, casting: Casting = "llama") -> Tensor:
    if gain is None:
        return F.rms_norm(x, x.shape[-1:], None, eps)
    if casting == "llama":
        return F.rms_norm(x, x.shape[-1:], None, eps) * gain.to(x.dtype)
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    return (F.rms_norm(exact, x.shape[-1:], None, eps) * (1.0 + gain)).to(x.dtype)


def layer_norm_reference(x: Tensor, gain: Tensor | None, bias: Tensor | None, *, eps: float) -> Tensor:
    cast = [vector if vector is None else vector.to(x.dtype) for vector in (gain, bias)]
    return F.layer_norm(x, x.shape[-1:], cast[0], cast[1], eps)


def added_reference(norm: Callable[[Tensor], Tensor], *parts: Tensor, uses: int) -> tuple[Tensor, ...]:
    total = sum(parts[1:], parts[0])
    return total, *(norm(total),) * uses


@jit
def _factor(gain, column, width, like, RULE: tl.constexpr):
    factor = tl.load(gain + column, mask=column < width, other=0.0)
    if RULE == "gemma":
        return 1.0 + factor.to(tl.float32)
    return factor.to(like).to(tl.float32)


@jit
def _mask(rows, columns, FULL: tl.constexpr):
    """Where there is something; columns are not asked for in a block that is as wide as the rows."""
    return rows if FULL else rows & columns


@jit(do_not_specialize=["n_rows"])
def _forward(
    x1, x2, x3, x4, stride1, stride2, stride3, stride4, gain, bias, total, normed, means, roots,
    n_rows, width, eps, RULE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    mask = _mask(row < n_rows, column < width, FULL)
    kind = normed.dtype.element_ty
    t = tl.load(x1 + row * stride1 + column, mask, other=0.0).to(tl.float32)
    if x2 is not None:
        t += tl.load(x2 + row * stride2 + column, mask, other=0.0).to(tl.float32)
    if x3 is not None:
        t += tl.load(x3 + row * stride3 + column, mask, other=0.0).to(tl.float32)
    if x4 is not None:
        t += tl.load(x4 + row * stride4 + column, mask, other=0.0).to(tl.float32)
    if total is not None:
        t = t.to(kind)
        tl.store(total + row * width + column, t, mask)
        t = t.to(tl.float32)
    if RULE == "layer":
        mean = tl.sum(t, 1)[:, None] / width
        tl.store(means + row, mean, row < n_rows)
        t = t - mean if FULL else tl.where(mask, t - mean, 0.0)
    root = tl.rsqrt(tl.sum(t * t, 1)[:, None] / width + eps)
    tl.store(roots + row, root, row < n_rows)
    y = t * root
    if RULE == "llama":
        y = y.to(kind).to(tl.float32)
    if gain is not None:
        y *= _factor(gain, column, width, kind, RULE)
    if bias is not None:
        y += tl.load(bias + column, mask=column < width, other=0.0).to(kind).to(tl.float32)
    tl.store(normed + row * width + column, y.to(kind), mask)


@jit(do_not_specialize=["n_rows"])
def _backward(
    dy1, dy2, dt, dy1_stride, dy2_stride, dt_stride, t, t_stride, gain, means, roots, dx, partials,
    n_rows, width, RULE: tl.constexpr, GAIN: tl.constexpr, BIAS: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    column = tl.arange(0, BLOCK)[None, :]
    dgain = tl.zeros([ROWS, BLOCK], tl.float32)
    dbias = tl.zeros([ROWS, BLOCK], tl.float32)
    kind = dx.dtype.element_ty
    if gain is not None:
        w = _factor(gain, column, width, kind, RULE)
    for first in tl.range(program * ROWS, n_rows, programs * ROWS, num_stages=STAGES):
        line = first + tl.arange(0, ROWS).to(tl.int64)
        row = line[:, None]
        mask = _mask(row < n_rows, column < width, FULL)
        n = tl.load(t + row * t_stride + column, mask, other=0.0).to(tl.float32)
        dy = tl.load(dy1 + row * dy1_stride + column, mask, other=0.0).to(tl.float32)
        if dy2 is not None:
            dy += tl.load(dy2 + row * dy2_stride + column, mask, other=0.0).to(tl.float32)
        root = tl.load(roots + line, line < n_rows, other=0.0)[:, None]
        if RULE == "layer":
            n -= tl.load(means + line, line < n_rows, other=0.0)[:, None]
            if not FULL:
                n = tl.where(mask, n, 0.0)
        n *= root
        if GAIN:
            dgain += dy * n
        if BIAS:
            dbias += dy
        if gain is not None:
            dy *= w
        gradient = dy - n * (tl.sum(dy * n, 1)[:, None] / width)
        if RULE == "layer":
            gradient -= tl.sum(dy, 1)[:, None] / width
        gradient *= root
        if dt is not None:
            gradient += tl.load(dt + row * dt_stride + column, mask, other=0.0).to(tl.float32)
        tl.store(dx + row * width + column, gradient.to(kind), mask)
    feature = tl.arange(0, BLOCK)
    if GAIN:
        tl.store(partials + program * width + feature, tl.sum(dgain, 0), feature < width)
        partials += programs * width
    if BIAS:
        tl.store(partials + program * width + feature, tl.sum(dbias, 0), feature < width)


@jit(do_not_specialize=["n_partials", "add", "add_second"])
def _fold(
    partials, out, add, second, add_second, n_partials, width, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums the partial rows of one vector, into what is there if told; the grid's second axis goes over two vectors."""
    vector = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for first in range(0, n_partials, ROWS):
        row = first + tl.arange(0, ROWS)
        mask = (row < n_partials)[:, None] & (column < width)[None, :]
        total += tl.load(partials + (vector * n_partials + row)[:, None] * width + column[None, :], mask, other=0.0)
    if vector == 1:
        out, add = second, add_second
    before = tl.load(out + column, column < width * add, other=0.0)
    tl.store(out + column, before + tl.sum(total, 0), column < width)


def _tile(kernel: str, width: int, loaded: int = 0) -> tuple[Setting, dict[str, int]]:
    chosen, block = setting(kernel, width, loaded), power(width)
    rows = max(1, chosen.elements // block)
    return chosen, {"ROWS": rows, "BLOCK": block, "FULL": width == block, **team(chosen.warps)}


def _kind(rule: str) -> str:
    return "layer" if rule == "layer" else "rms"


def _launch(
    rule: str, eps: float, gain: Tensor | None, bias: Tensor | None, parts: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """The sum, its norm, and the statistics of the rows."""
    x, matrices = parts[0], [rows(part) for part in parts]
    (count, width), absent = matrices[0].shape, MOST - len(parts)
    _, tile = _tile(f"{_kind(rule)}_norm", width)
    total = torch.empty_like(x, memory_format=torch.contiguous_format) if len(parts) > 1 else None
    normed = torch.empty_like(x, memory_format=torch.contiguous_format)
    roots = torch.empty(count, dtype=torch.float32, device=x.device)
    means = torch.empty_like(roots) if rule == "layer" else None
    strides = (matrix.stride(0) for matrix in matrices)
    with on(x.device):
        _forward[(-(-count // tile["ROWS"]),)](
            *matrices, *(None,) * absent, *strides, *(0,) * absent, gain, bias, total, normed, means, roots,
            count, width, eps, RULE=rule, **tile,
        )  # fmt: skip
    return x if total is None else total, normed, means, roots


def _launch_backward(
    rule: str, total: Tensor, gain: Tensor | None, means: Tensor | None, roots: Tensor,
    upstream: list[Tensor | None], needs: tuple[bool, bool], places: tuple[Gathering | None, ...],
) -> tuple[Tensor, list[Tensor | None]]:  # fmt: skip
    """The gradient of the sum, and those of gain and bias that are needed and have no place; upstream is dy, dy, dt."""
    t = rows(total)
    count, width = t.shape
    loads = 1 + sum(gradient is not None for gradient in upstream)
    chosen, tile = _tile(f"{_kind(rule)}_norm_backward", width, t.itemsize * loads)
    programs = min(-(-count // tile["ROWS"]), multiprocessors(t.device) * chosen.programs)
    dx = torch.empty_like(total, memory_format=torch.contiguous_format)
    partials = torch.empty(sum(needs), programs, width, dtype=torch.float32, device=t.device)
    matrices = [None if gradient is None else rows(gradient) for gradient in upstream]
    strides = (0 if matrix is None else matrix.stride(0) for matrix in matrices)
    fold = setting("norm_fold", width)
    with on(t.device):
        _backward[(programs,)](
            *matrices, *strides, t, t.stride(0), gain, means, roots, dx, partials,
            count, width, RULE=rule, GAIN=needs[0], BIAS=needs[1], STAGES=chosen.stages, **tile,
        )  # fmt: skip
        wanted = [place for place, needed in zip(places, needs, strict=True) if needed]
        into = [torch.empty_like(partials[0, 0]) if place is None else place.into for place in wanted]
        adds = [int(place is not None and not place.begins()) for place in wanted]
        if wanted:
            _fold[(-(-width // FOLDED), len(wanted))](
                partials, into[0], adds[0], into[-1], adds[-1], programs, width,
                ROWS=fold.elements // FOLDED, BLOCK=FOLDED, **team(fold.warps),
            )  # fmt: skip
    sums = (None if place else vector for place, vector in zip(wanted, into, strict=True))
    return dx, [next(sums) if needed else None for needed in needs]


class _Norm(torch.autograd.Function):
    """(sum or not, the normed as often as it is used) of parts."""

    @staticmethod
    def forward(
        ctx: Any, rule: str, eps: float, uses: int, has_sum: bool,
        gain: Tensor | None, bias: Tensor | None, places: tuple[Gathering | None, ...], *parts: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        total, normed, means, roots = _launch(rule, eps, gain, bias, parts)
        ctx.set_materialize_grads(False)
        ctx.rule, ctx.has_sum, ctx.n_parts, ctx.places = rule, has_sum, len(parts), places
        ctx.save_for_backward(total, gain, means, roots)
        again = (normed, *(normed.detach() for _ in range(uses - 1)))
        return (total, *again) if has_sum else again

    @staticmethod
    @once
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Any, ...]:
        dt, dys = (upstream[0], upstream[1:]) if ctx.has_sum else (None, upstream)
        dys = [dy for dy in dys if dy is not None]
        if not dys:
            return *(None,) * 7, *(dt,) * ctx.n_parts
        total, gain, means, roots = ctx.saved_tensors
        both = [dys[0], sum(dys[2:], dys[1]) if len(dys) > 1 else None, dt]
        needs = ctx.needs_input_grad[4:6]
        dx, vectors = _launch_backward(ctx.rule, total, gain, means, roots, both, needs, ctx.places)
        return *(None,) * 4, *vectors, None, *(dx,) * ctx.n_parts


def _normed(
    rule: str, eps: float, gain: Tensor | None, bias: Tensor | None, *parts: Tensor, uses: int = 1, has_sum: bool = True
) -> tuple[Tensor, ...]:
    places = tuple(None if vector is None else gathering(vector) for vector in (gain, bias))
    return _Norm.apply(rule, eps, uses, has_sum, gain, bias, places, *parts)


def _fits(parts: tuple[Tensor, ...], *vectors: Tensor | None) -> bool:
    x = parts[0]
    alike = all(part.shape == x.shape and part.dtype == x.dtype for part in parts) and x.ndim > 0
    fitting = all(vector is None or (vector.shape == x.shape[-1:] and vector.is_contiguous()) for vector in vectors)
    return available(*parts, *vectors) and alike and fitting and x.shape[-1] <= WIDEST


def _few(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    beyond = len(parts) - MOST + 1
    return parts if beyond <= 1 else (sum(parts[1:beyond], parts[0]), *parts[beyond:])


def rms_norm(x: Tensor, gain: Tensor | None = None, *, eps: float, casting: Casting = "llama") -> Tensor:
    """RMSNorm of x (..., width) with a gain (width,) or none; Gemma's gain is an offset from one."""
    if not _fits((x,), gain):
        return rms_norm_reference(x, gain, eps=eps, casting=casting)
    return _normed(casting, eps, gain, None, x, has_sum=False)[0]


def layer_norm(x: Tensor, gain: Tensor | None = None, bias: Tensor | None = None, *, eps: float) -> Tensor:
    """LayerNorm of x (..., width) with gain and bias (width,), each of which may be missing."""
    if not _fits((x,), gain, bias):
        return layer_norm_reference(x, gain, bias, eps=eps)
    return _normed("layer", eps, gain, bias, x, has_sum=False)[0]


def add_rms_norm(
    *parts: Tensor, gain: Tensor | None = None, eps: float, casting: Casting = "llama", uses: int = 1
) -> tuple[Tensor, ...]:
    """The sum of parts (..., width), then its RMSNorm, once for each use: for two readers, whose gradients it adds."""
    if not _fits(parts, gain):
        return added_reference(partial(rms_norm_reference, gain=gain, eps=eps, casting=casting), *parts, uses=uses)
    return _normed(casting, eps, gain, None, *_few(parts), uses=uses)


def add_layer_norm(
    *parts: Tensor, gain: Tensor | None = None, bias: Tensor | None = None, eps: float, uses: int = 1
) -> tuple[Tensor, ...]:
    """The sum of parts (..., width), then its LayerNorm, once for each use."""
    if not _fits(parts, gain, bias):
        return added_reference(partial(layer_norm_reference, gain=gain, bias=bias, eps=eps), *parts, uses=uses)
    return _normed("layer", eps, gain, bias, *_few(parts), uses=uses)
