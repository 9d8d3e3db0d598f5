"""Operations and who has them, so that all are put to the same test: labkit, torch, and Liger where that is installed.

Torch's own in float64 is what all are compared with.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit import kernels
from labkit.bench.case import liger
from labkit.kernels import Rotation, Scores, using

EPS = 1e-6
VOCAB = 50
"""Of an embedding and a head that are to be small."""

Function = Callable[..., Tensor | tuple[Tensor, ...]]


class Drawn(NamedTuple):
    """How large the inputs of an operation are drawn, and where."""

    rows: int
    width: int
    dtype: torch.dtype
    device: torch.device

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, dtype=self.dtype, device=self.device)

    @property
    def row(self) -> Tensor:
        return self.normal(self.rows, self.width)

    @property
    def vector(self) -> Tensor:
        """Of the model's own: in fp32, of values that bf16 has too."""
        return torch.randn(self.width, dtype=self.dtype, device=self.device).float()


class Operation(NamedTuple):
    """One operation: its inputs, and everybody's version of it."""

    inputs: Callable[[Drawn], list[Tensor]]
    ways: dict[str, Any]
    """By name: a function of the inputs, or None."""
    rowwise: int = 0
    """So many of the inputs are matrices whose rows do not know of each other, nor do those of the outputs."""

    def way(self, name: str) -> Function | None:
        """Somebody's version; labkit's is the kernel, also in Triton's interpreter."""
        function = self.ways.get(name)
        if function is None:
            return None

        def called(*inputs: Tensor, **options: Any) -> Any:
            with using("triton") if name == "labkit" else nullcontext():
                return function(*inputs, **options)

        return called


def targets_of(rows: Tensor, vocab: int) -> Tensor:
    """Some target for every row, counted from the last, so that the last rows of many have those of a few."""
    return torch.arange(len(rows), device=rows.device).flip(0) * 7919 % vocab


def rms(x: Tensor, gain: Tensor) -> Tensor:
    """torch's own, which rounds once, after the gain."""
    return F.rms_norm(x, x.shape[-1:], gain.to(x.dtype), EPS)


def added_rms(x: Tensor, branch: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
    total = x + branch
    return total, rms(total, gain)


def swiglu(packed: Tensor) -> Tensor:
    gate, up = packed.chunk(2, -1)
    return F.silu(gate) * up


def cross_entropy(
    logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, z: float = 0.0, softcap: float | None = None,
    reduction: str = "none",
) -> Tensor:  # fmt: skip
    """In torch's own operations, which know neither a cap nor z."""
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    capped = exact if softcap is None else softcap * torch.tanh(exact / softcap)
    losses = F.cross_entropy(capped, targets, reduction=reduction, label_smoothing=smoothing)
    return losses + z * capped.logsumexp(-1).square() * (targets != -100) if z else losses


def labkit_cross_entropy(logits: Tensor, targets: Tensor, *, reduction: str = "none", **options: Any) -> Tensor:
    scale = 1 / int((targets != -100).sum()) if reduction == "mean" else 1.0
    losses = kernels.cross_entropy(logits, targets, scale=scale, overwrite=True, **options)
    return losses.sum() if reduction == "mean" else losses


def labkit_head(hidden: Tensor, weight: Tensor) -> Tensor:
    targets = targets_of(hidden, len(weight))
    return kernels.linear_cross_entropy(hidden, weight, targets, scale=1 / max(1, len(hidden)), chunked=True).sum()


def head(hidden: Tensor, weight: Tensor) -> Tensor:
    logits = hidden @ weight.T
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(exact, targets_of(hidden, len(weight)))


def rotation(x_BTHD: Tensor) -> Rotation:
    length, features = x_BTHD.shape[1], x_BTHD.shape[3]
    angles = torch.outer(torch.arange(length), 100.0 ** (-torch.arange(0, features, 2) / features)).to(x_BTHD.device)
    return Rotation(angles.cos(), angles.sin())


def rope(x_BTHD: Tensor) -> Tensor:
    exact = x_BTHD.to(torch.promote_types(x_BTHD.dtype, torch.float32))
    cos, sin = (wave[:, None].to(exact.dtype) for wave in rotation(x_BTHD)[:2])
    a, b = exact.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x_BTHD.dtype)


def attention(q_BTHD: Tensor, k_BTHD: Tensor, v_BTHD: Tensor) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q_BTHD, k_BTHD, v_BTHD))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


def labkit_attention(q_BTHD: Tensor, k_BTHD: Tensor, v_BTHD: Tensor) -> Tensor:
    return kernels.attend(q_BTHD, k_BTHD, v_BTHD, Scores(q_BTHD.shape[-1] ** -0.5))


def tokens_of(gradient_rows: int, device: torch.device) -> Tensor:
    return torch.arange(gradient_rows, device=device).square() % VOCAB


def embedding(lookup: Callable[[Tensor, Tensor], Tensor], weight: Tensor) -> Tensor:
    return lookup(tokens_of(80, weight.device), weight)


def sequences(drawn: Drawn) -> Tensor:
    """(1, T, 2, D) with as many tokens as rows."""
    return drawn.normal(1, drawn.rows, 2, drawn.width)


def of_liger() -> dict[str, Any]:
    """Liger's, by operation; of those that it has here."""
    found: dict[str, Any] = {}
    path = "transformers.functional.liger_"
    if norm := liger(path + "rms_norm"):
        found["rms_norm"] = lambda x, g: norm(x, g, EPS)
        found["rms_norm in gemma's casting"] = lambda x, g: norm(x, g, EPS, 1.0, "gemma")
    if layer := liger(path + "layer_norm"):
        found["layer_norm"] = lambda x, g, b: layer(x, g, b, EPS)
    if added := liger(path + "fused_add_rms_norm"):
        found["add_rms_norm"] = lambda x, branch, g: added(x, branch, g, EPS)[::-1]
    if gated := liger(path + "swiglu"):
        found["swiglu"] = lambda packed: gated(*packed.chunk(2, -1))
    if losses := liger(path + "cross_entropy"):
        found["cross_entropy"] = lambda x, t, smoothing=0.0, z=0.0, softcap=None, reduction="none": losses(
            x, t, reduction=reduction, label_smoothing=smoothing, lse_square_scale=z, softcap=softcap
        )
    if chunked := liger(path + "fused_linear_cross_entropy"):
        found["linear_cross_entropy"] = lambda h, w: chunked(h, w, targets_of(h, len(w)))
    if turned := liger(path + "rope"):
        found["rope"] = partial(_turned_by_liger, turned)
    return found


def _turned_by_liger(turned: Any, x_BTHD: Tensor) -> Tensor:
    """It turns queries and keys, heads first, with every angle twice."""
    waves = [torch.cat((wave, wave), -1)[None].to(x_BTHD.dtype) for wave in rotation(x_BTHD)[:2]]
    q_BHTD, k_BHTD = x_BTHD.transpose(1, 2), x_BTHD[:, :, :1].transpose(1, 2).clone()
    return turned(q_BHTD, k_BHTD, *waves)[0].transpose(1, 2)


def operations() -> dict[str, Operation]:
    """Every operation, with Liger's where that is installed."""
    theirs = of_liger()

    def all_of(name: str, ours: Any, torchs: Any) -> dict[str, Any]:
        return {"labkit": ours, "torch": torchs, "liger": theirs.get(name)}

    def losses(way: Any) -> Any:
        """With the targets, where they are not given."""
        return way and (lambda x, t=None, **options: way(x, targets_of(x, x.shape[1]) if t is None else t, **options))

    gemma = "rms_norm in gemma's casting"
    return {
        "rms_norm": Operation(
            lambda d: [d.row, d.vector], all_of("rms_norm", lambda x, g: kernels.rms_norm(x, g, eps=EPS), rms), 1
        ),
        gemma: Operation(
            lambda d: [d.row, d.vector],
            all_of(gemma, lambda x, g: kernels.rms_norm(x, g, eps=EPS, casting="gemma"), None),
            1,
        ),
        "layer_norm": Operation(
            lambda d: [d.row, d.vector, d.vector],
            all_of(
                "layer_norm",
                lambda x, g, b: kernels.layer_norm(x, g, b, eps=EPS),
                lambda x, g, b: F.layer_norm(x, x.shape[-1:], g.to(x.dtype), b.to(x.dtype), EPS),
            ),
            1,
        ),
        "add_rms_norm": Operation(
            lambda d: [d.row, d.row, d.vector],
            all_of("add_rms_norm", lambda x, r, g: kernels.add_rms_norm(x, r, gain=g, eps=EPS), added_rms),
            2,
        ),
        "swiglu": Operation(
            lambda d: [d.normal(d.rows, 2 * d.width)],
            all_of("swiglu", lambda packed: kernels.glu(packed, "silu"), swiglu),
            1,
        ),
        "cross_entropy": Operation(
            lambda d: [d.row],
            {name: losses(way) for name, way in all_of("cross_entropy", labkit_cross_entropy, cross_entropy).items()},
            1,
        ),
        "linear_cross_entropy": Operation(
            lambda d: [d.row, d.normal(VOCAB, d.width) * d.width**-0.5],
            all_of("linear_cross_entropy", labkit_head, head),
        ),
        "rope": Operation(lambda d: [sequences(d)], all_of("rope", lambda x: kernels.rope(x, rotation(x)), rope)),
        "attention": Operation(
            lambda d: [sequences(d) for _ in range(3)], all_of("attention", labkit_attention, attention)
        ),
        "embedding": Operation(
            lambda d: [d.normal(VOCAB, d.width)],
            all_of("embedding", partial(embedding, kernels.embedding), partial(embedding, F.embedding)),
        ),
    }
