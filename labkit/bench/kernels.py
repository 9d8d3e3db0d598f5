"""Each fused operation by itself: its time on the GPU, how near that comes to a copy of as many bytes, what one call
from Python takes, and the same of torch's own operation, of torch.compile and of Liger where that is installed.

The bytes are the fewest: per element in bf16 forward + backward 10 for a norm, 16 for a residual sum and its norm,
16 for a gated unit (per hidden element), 10 for an activation, 8 for a rotated feature, 4 for a logit, 30 for a
parameter of AdamW. The head with its loss stands beside its three products instead of a copy.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit import kernels
from labkit.bench.case import Case, Row, Told, brief, leaf, liger, measured, one, peers
from labkit.bench.measure import alternated, copied, launched, peak, replayed

EPS = 1e-6


def rows_at(width: int) -> int:
    return 32 * 1024 if width <= 1024 else 16 * 1024


def norms(names: list[str]) -> Iterator[Case]:
    """RMSNorm and LayerNorm with their vectors."""
    their_rms, their_layer = (
        liger("transformers.functional.liger_rms_norm"),
        liger("transformers.functional.liger_layer_norm"),
    )
    for width in (256, 768, 1024, 2048, 4096, 8192):
        for dtype in (torch.bfloat16, torch.float32) if width in (768, 2048) else (torch.bfloat16,):
            count, size = rows_at(width), dtype.itemsize

            def inputs(n_vectors: int, count: int, width: int = width, dtype: torch.dtype = dtype) -> list[Tensor]:
                vectors = (leaf(width, dtype=torch.float32) for _ in range(n_vectors))
                return [leaf(count, width, dtype=dtype), *vectors]

            passes = [2 * size * count * width, 3 * size * count * width]
            yield Case(
                "rms_norm", f"{count}x{width}", dtype, passes, partial(inputs, 1, count), partial(inputs, 1, 64),
                one(lambda x, g: kernels.rms_norm(x, g, eps=EPS)),
                peers(
                    names, one(lambda x, g: F.rms_norm(x, x.shape[-1:], g.to(x.dtype), EPS)),
                    their_rms and one(lambda x, g: their_rms(x, g, EPS)),
                ),
            )  # fmt: skip
            yield Case(
                "layer_norm", f"{count}x{width}", dtype, passes, partial(inputs, 2, count), partial(inputs, 2, 64),
                one(lambda x, g, b: kernels.layer_norm(x, g, b, eps=EPS)),
                peers(
                    names, one(lambda x, g, b: F.layer_norm(x, x.shape[-1:], g.to(x.dtype), b.to(x.dtype), EPS)),
                    their_layer and one(lambda x, g, b: their_layer(x, g, b, EPS)),
                ),
            )  # fmt: skip


def sums_and_norms(names: list[str]) -> Iterator[Case]:
    """The residual sum of two, and its RMSNorm."""
    theirs = liger("transformers.functional.liger_fused_add_rms_norm")

    def added(x: Tensor, branch: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        total = x + branch
        return total, F.rms_norm(total, total.shape[-1:], g.to(total.dtype), EPS)

    def liger_added(x: Tensor, branch: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        normed, total = theirs(x, branch, g, EPS)
        return total, normed

    for width in (256, 768, 1024, 2048, 4096, 8192):
        count = rows_at(width)

        def inputs(count: int, width: int = width) -> list[Tensor]:
            return [*(leaf(count, width, dtype=torch.bfloat16) for _ in range(2)), leaf(width, dtype=torch.float32)]

        yield Case(
            "add_rms_norm", f"{count}x{width}", torch.bfloat16, [8 * count * width] * 2,
            partial(inputs, count), partial(inputs, 64),
            lambda x, branch, g: kernels.add_rms_norm(x, branch, gain=g, eps=EPS),
            peers(names, added, theirs and liger_added),
        )  # fmt: skip


def gated_units(names: list[str]) -> Iterator[Case]:
    """SwiGLU and GEGLU on one packed tensor; Liger has gate and up apart."""
    references: dict[kernels.Activation, tuple[Any, Any]] = {
        "silu": (F.silu, liger("ops.swiglu.LigerFusedGateUpSiLUMulFunction")),
        "gelu_tanh": (partial(F.gelu, approximate="tanh"), liger("transformers.functional.liger_geglu")),
        "gelu": (F.gelu, None),
        "relu": (F.relu, None),
    }
    for kind, (activation, theirs) in references.items():
        for count, width in ((32_768, 768), (32_768, 2048), (16_384, 8192), (16_384, 5504)):
            if width != 2048 and kind in ("gelu", "relu"):
                continue

            def inputs(count: int, width: int = width) -> list[Tensor]:
                return [leaf(count, 2 * width, dtype=torch.bfloat16)]

            def reference(packed: Tensor, activation: Any = activation) -> Tensor:
                gate, up = packed.chunk(2, -1)
                return activation(gate) * up

            yield Case(
                f"glu {kind}", f"{count}x{width}", torch.bfloat16, [6 * count * width, 10 * count * width],
                partial(inputs, count), partial(inputs, 64), one(partial(kernels.glu, kind=kind)),
                peers(
                    names, one(reference),
                    theirs and one(partial(_gated_by_liger, theirs)),
                ),
            )  # fmt: skip


def _gated_by_liger(theirs: Any, packed: Tensor) -> Tensor:
    return theirs.apply(packed) if hasattr(theirs, "apply") else theirs(*packed.chunk(2, -1))


def activations(names: list[str]) -> Iterator[Case]:
    """Of a plain unit."""
    references: dict[kernels.Activation, Any] = {
        "gelu": F.gelu,
        "gelu_tanh": partial(F.gelu, approximate="tanh"),
        "relu2": lambda x: F.relu(x).square(),
        "silu": F.silu,
    }
    for kind, reference in references.items():
        count, width = 16_384, 3072

        def inputs(count: int, width: int = width) -> list[Tensor]:
            return [leaf(count, width, dtype=torch.bfloat16)]

        yield Case(
            f"activation {kind}", f"{count}x{width}", torch.bfloat16, [4 * count * width, 6 * count * width],
            partial(inputs, count), partial(inputs, 64), one(partial(kernels.activation, kind=kind)),
            peers(names, one(reference), None),
        )  # fmt: skip


def rotations(names: list[str]) -> Iterator[Case]:
    """Of queries and keys in both layouts; Liger has one of them, heads first."""
    theirs = liger("transformers.functional.liger_rope")
    for batch, length, heads, shared, features in ((32, 1024, 12, 12, 64), (8, 2048, 32, 8, 64), (4, 4096, 32, 8, 128)):
        angles = torch.outer(torch.arange(length), 10_000.0 ** (-torch.arange(0, features, 2) / features)).cuda()
        doubled = [torch.cat([wave, wave], -1)[None].bfloat16() for wave in (angles.cos(), angles.sin())]
        shapes = [(length, count, features) for count in (heads, shared)]

        def inputs(batch: int, shapes: list[Any] = shapes) -> list[Tensor]:
            return [leaf(batch, *shape, dtype=torch.bfloat16) for shape in shapes]

        def half(x: Tensor, waves: list[Tensor] = doubled) -> Tensor:
            a, b = x.chunk(2, -1)
            return x * waves[0].unsqueeze(2) + torch.cat([-b, a], -1) * waves[1].unsqueeze(2)

        def pairs(x: Tensor, angles: Tensor = angles) -> Tensor:
            a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
            cos, sin = angles.cos()[:, None], angles.sin()[:, None]
            return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2).to(x.dtype)

        def by_liger(q: Tensor, k: Tensor, waves: list[Tensor] = doubled) -> tuple[Tensor, ...]:
            return tuple(x.transpose(1, 2) for x in theirs(q.transpose(1, 2), k.transpose(1, 2), *waves))

        for layout, reference in (("half", half), ("interleaved", pairs)):
            rotation = kernels.Rotation(angles.cos(), angles.sin(), layout == "interleaved")
            size = 4 * batch * length * (heads + shared) * features
            yield Case(
                f"rope {layout}", f"{batch}x{length}x{heads}/{shared}x{features}", torch.bfloat16, [size, size],
                partial(inputs, batch), partial(inputs, 1), each(partial(kernels.rope, rotation=rotation)),
                peers(names, each(reference), theirs and layout == "half" and by_liger),
            )  # fmt: skip


def each(function: Callable[[Tensor], Tensor]) -> Callable[..., tuple[Tensor, ...]]:
    """Of each input one result."""
    return lambda *inputs: tuple(map(function, inputs))


class _Given(torch.autograd.Function):
    """Logits as a product leaves them: neither a leaf nor a view."""

    @staticmethod
    def forward(ctx: Any, unit: Tensor, held: list[Tensor]) -> Tensor:
        return held.pop()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        return gradients[0].new_zeros(()), None


def losses(names: list[str], told: Told, count: int, vocab: int) -> Row:
    """Cross-entropy with its gradient in place of the logits, which are new each time."""
    theirs, unit = (
        liger("transformers.functional.liger_cross_entropy"),
        torch.ones((), device="cuda", requires_grad=True),
    )
    source, targets = (
        torch.randn(count, vocab, device="cuda").bfloat16(),
        torch.randint(0, vocab, (count,), device="cuda"),
    )
    size, held = 4 * count * vocab, list[Tensor]()
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "labkit": lambda x: kernels.cross_entropy(x, targets, scale=1 / count, overwrite=True).sum(),
        **peers(names, lambda x: F.cross_entropy(x.float(), targets), theirs and (lambda x: theirs(x, targets))),
    }
    row = Row("cross_entropy", f"{count}x{vocab}", "bfloat16", size, 1e6 * copied([size]))
    for name, way in ways.items():
        work = partial(lambda way: torch.autograd.grad(way(_Given.apply(unit, held)), unit), way)
        try:
            row.both[name] = 1e6 * launched(work, lambda: held.append(source.clone()))
        except Exception as error:
            told(f"{row.op} {row.size}, {name}: left out: {brief(error)}")
    return row


def heads(names: list[str], told: Told, count: int, width: int, vocab: int) -> Row:
    """The head's product and the loss, against the three products by themselves."""
    theirs = liger("transformers.functional.liger_fused_linear_cross_entropy")
    hidden, weight = leaf(count, width, dtype=torch.bfloat16), leaf(vocab, width, dtype=torch.bfloat16, std=0.02)
    targets = torch.randint(0, vocab, (count,), device="cuda")
    placed: Any = weight.detach().clone().requires_grad_()
    placed.gathering = kernels.Gathering(torch.empty(vocab, width, device="cuda"))

    def ours(h: Tensor, w: Tensor, *, chunked: bool = True) -> Tensor:
        return kernels.linear_cross_entropy(h, w, targets, scale=1 / count, chunked=chunked).sum()

    def gathered(h: Tensor, w: Tensor, *, chunked: bool = True) -> Tensor:
        placed.gathering.is_awaited = True
        return ours(h, placed, chunked=chunked)

    ways: dict[str, Callable[..., Tensor]] = {
        "labkit": gathered,
        "not in chunks": partial(gathered, chunked=False),
        "own gradient": ours,
        **peers(
            names, lambda h, w: F.cross_entropy((h @ w.T).float(), targets),
            theirs and (lambda h, w: theirs(h, w, targets)),
        ),
    }  # fmt: skip
    works: dict[str, Callable[[], Any]] = {
        name: partial(lambda way: torch.autograd.grad(way(hidden, weight), (hidden, weight), allow_unused=True), way)
        for name, way in ways.items()
    }
    row = Row("linear_cross_entropy", f"{count}x{width}x{vocab}", "bfloat16", 0, 0.0)
    for name, work in list(works.items()):
        try:
            row.extra[f"{name}: peak / logits"] = peak(work) / (2 * count * vocab)
        except Exception as error:
            del works[name]
            told(f"{row.op} {row.size}, {name}: left out: {brief(error)}")
    times = alternated({"products": _products(hidden, weight), **works})
    row.copy, row.both = 1e6 * times.pop("products"), {name: 1e6 * time for name, time in times.items()}
    return row


def _products(hidden: Tensor, weight: Tensor) -> Callable[[], None]:
    """The three products with nothing between them."""
    h, w = hidden.detach(), weight.detach()
    logits, dh, dw = h @ w.T, torch.empty_like(h), torch.empty_like(w)

    def work() -> None:
        torch.mm(h, w.T, out=logits)
        torch.mm(logits, w, out=dh)
        torch.mm(logits.T, h, out=dw)

    return work


def embeddings(names: list[str]) -> Iterator[Case]:
    """Of words as they are distributed in text, with a gradient that is added to what a tied head wrote."""
    for count, width, vocab in ((32_768, 768, 50_304), (16_384, 2048, 32_000)):
        chances = 1 / torch.arange(1, vocab + 1, device="cuda", dtype=torch.float64)
        place = kernels.Gathering(torch.zeros(vocab, width, device="cuda"))
        unique = len(torch.multinomial(chances, count, replacement=True).unique())

        def inputs(count: int, chances: Tensor = chances, width: int = width) -> list[Tensor]:
            tokens = torch.multinomial(chances, count, replacement=True)
            return [tokens, leaf(len(chances), width, dtype=torch.bfloat16)]

        yield Case(
            "embedding", f"{count}x{width}x{vocab}", torch.bfloat16,
            [4 * count * width, 2 * count * width + 8 * unique * width], partial(inputs, count), partial(inputs, 64),
            one(partial(_gathered, place)), peers(names, one(F.embedding), None),
        )  # fmt: skip


def _gathered(place: Any, tokens: Tensor, weight: Any) -> Tensor:
    weight.gathering = place
    return kernels.embedding(tokens, weight)


def optimizers(names: list[str]) -> Iterator[Row]:
    """AdamW with clipping and the copies in bf16, and the norm before it."""
    shapes = [(50_304, 768), *[(2304, 768), (768, 768), (4096, 768), (768, 2048), (768,), (768,)] * 12]
    counts = [torch.Size(shape).numel() for shape in shapes]
    flat = torch.randn(sum(counts), device="cuda")
    masters, means, squares = ([torch.rand(shape, device="cuda") for shape in shapes] for _ in range(3))
    gradients = [place.view(shape) for place, shape in zip(flat.split(counts), shapes, strict=True)]
    copies = [torch.empty_like(master, dtype=torch.bfloat16) for master in masters]
    groups = [0 if len(shape) > 1 else 1 for shape in shapes]
    slots = map(kernels.Slot, masters, gradients, means, squares, copies, groups)
    table, scalar = kernels.Table(list(slots)), partial(torch.tensor, device="cuda")
    ours = partial(
        kernels.adamw, table, rates=scalar([[1e-3, 1e-3]]), decays=scalar([0.1, 0.0]), step=scalar(5),
        betas=(0.9, 0.95), eps=1e-8, norm=scalar(2.0), clip=1.0, frozen=scalar(0.0),
    )  # fmt: skip
    row = Row("adamw", f"{sum(counts)}", "float32", 30 * sum(counts), 1e6 * copied([30 * sum(counts)]))
    row.both["labkit"] = 1e6 * replayed(ours)
    if "torch" in names:
        for master, gradient in zip(masters, gradients, strict=True):
            master.grad = gradient
        theirs: Any = torch.optim.AdamW(masters, fused=True, capturable=True)

        def step() -> None:
            theirs.step()
            for copy, master in zip(copies, masters, strict=True):
                copy.copy_(master)

        row.both["torch"] = 1e6 * replayed(step)
    yield row
    row = Row("grad_norm", f"{sum(counts)}", "float32", 4 * sum(counts), 1e6 * copied([4 * sum(counts)]))
    row.both["labkit"] = 1e6 * replayed(lambda: kernels.grad_norm(flat))
    if "torch" in names:
        row.both["torch"] = 1e6 * replayed(lambda: torch.linalg.vector_norm(flat))
    yield row


CASES = {
    "norm": norms,
    "add_norm": sums_and_norms,
    "glu": gated_units,
    "activation": activations,
    "rope": rotations,
    "embedding": embeddings,
}

SIZED: list[tuple[str, Callable[..., Row], list[tuple[int, ...]]]] = [
    ("cross_entropy", losses, [(16_384, 50_304), (16_384, 32_000), (8192, 128_256), (131_072, 8192)]),
    ("linear_cross_entropy", heads, [(16_384, 768, 50_304), (32_768, 768, 50_304), (16_384, 2048, 32_000)]),
]

NAMES = (*CASES, *(kind for kind, *_ in SIZED), "adamw")
HEADER = f"{'op':22} {'size':18} {'dtype':8} {'forward':>8} {'both, µs':>9} {'copy, µs':>9}  share  peers (both, µs)"


def bench(only: list[str], names: list[str], told: Told) -> Iterator[Row]:
    """Every operation, or those named, beside the peers named."""
    if "liger" in names and not liger("transformers.functional.liger_rms_norm"):
        told("liger: left out: liger_kernel not installed (pip install liger-kernel)")
    for kind, cases in CASES.items():
        if not only or kind in only:
            for case in cases(names):
                yield measured(case, told)
    for kind, function, sizes in SIZED:
        if not only or kind in only:
            for size in sizes:
                yield function(names, told, *size)
                torch.cuda.empty_cache()
    if not only or "adamw" in only:
        yield from optimizers(names)


def line(row: Row) -> str:
    """One row of the table."""
    peers = "  ".join(f"{name} {time:.0f}" for name, time in row.both.items() if name != "labkit")
    calls = " / ".join(f"{time:.0f}" for time in row.call.values())
    ours = row.both.get("labkit", math.nan)
    extra = "  ".join(f"{name} {value:.3f}" for name, value in row.extra.items())
    forward = f"{row.forward['labkit']:8.1f}" if "labkit" in row.forward else " " * 8
    return (
        f"{row.op:22} {row.size:18} {row.dtype:8} {forward} {ours:9.1f} {row.copy:9.1f} {row.share:6.1%}"
        f"  {peers}  {calls and 'calls ' + calls}  {extra}"
    )
