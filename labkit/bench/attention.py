"""Causal attention beside what a user could pick instead: time on the GPU, and whether a call repeats bit for bit.

In bf16. labkit reads q, k and v out of one packed product and writes one gradient; the peers get them contiguous, heads
first. A pass does 2 products of the visible half forward and 5 backward, whatever is computed twice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from labkit.bench.case import Told, brief
from labkit.bench.measure import called, replayed
from labkit.kernels import Rotation, Scores, attend_packed

PEERS = ("cudnn", "flash", "flex")
AGAIN = 20
"""How many calls are compared with the first."""


class Shape(NamedTuple):
    """Of a batch of sequences, and the heads of queries and of keys and values."""

    batch: int
    length: int
    heads: int
    shared: int
    features: int

    def __str__(self) -> str:
        return f"B {self.batch}, T {self.length}, {self.heads}/{self.shared} heads of {self.features}"

    @property
    def flop(self) -> float:
        """Of both passes."""
        return 7.0 * self.batch * self.heads * self.length**2 * self.features


SHAPES = (Shape(32, 1024, 12, 12, 64), Shape(8, 2048, 32, 8, 64), Shape(32, 1024, 8, 4, 32), Shape(4, 4096, 32, 8, 128))


class Contender(NamedTuple):
    """Who computes it: from its inputs, and from its gradient."""

    name: str
    forward: Callable[..., Tensor]
    inputs: list[Tensor]
    upstream: Tensor

    def both(self) -> list[Tensor]:
        """The output, and the gradient of every input."""
        out = self.forward(*self.inputs)
        gradients = torch.autograd.grad(out, self.inputs, self.upstream)
        return [out.detach(), *gradients]


@dataclass
class Row:
    """What was measured: milliseconds, and how many of the calls differed from the first anywhere."""

    shape: str
    name: str
    forward: float
    both: float
    call: float
    """Of both passes on the host."""
    tflops: float
    differing: int


def contenders(shape: Shape, names: list[str]) -> Iterator[Contender]:
    """labkit, and the peers named."""
    batch, length, heads, shared, features = shape
    qkv = torch.randn(batch, length, heads + 2 * shared, features, device="cuda", dtype=torch.bfloat16)
    upstream = torch.randn(batch, length, heads, features, device="cuda", dtype=torch.bfloat16)
    attend = partial(attend_packed, heads=(heads, shared), scores=Scores(features**-0.5))
    yield Contender("labkit", attend, [qkv.flatten(2).requires_grad_()], upstream.flatten(2))
    inputs = [x.transpose(1, 2).contiguous().requires_grad_() for x in qkv.split((heads, shared, shared), 2)]
    for name in names:
        yield Contender(name, partial(PEER[name], shape), inputs, upstream.transpose(1, 2).contiguous())


def fused(backend: SDPBackend, shape: Shape, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One of torch's own."""
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shape.heads != shape.shared)


def flex(shape: Shape, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """torch's Triton template, compiled."""
    attention, mask = _compiled(shape.length)
    return attention(q, k, v, block_mask=mask, enable_gqa=shape.heads != shape.shared)


@cache
def _compiled(length: int) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # imports the compiler

    mask = create_block_mask(lambda b, h, query, key: query >= key, None, None, length, length, device="cuda")
    return torch.compile(flex_attention, dynamic=False), mask


PEER: dict[str, Callable[..., Tensor]] = {
    "cudnn": partial(fused, SDPBackend.CUDNN_ATTENTION),
    "flash": partial(fused, SDPBackend.FLASH_ATTENTION),
    "flex": flex,
}


def optional(shape: Shape) -> Iterator[Contender]:
    """labkit with what the peers cannot do, or only with another pass."""
    batch, length, heads, shared, features = shape
    qkv = torch.randn(batch, length, (heads + 2 * shared) * features, device="cuda", dtype=torch.bfloat16)
    upstream = torch.randn(batch, length, heads * features, device="cuda", dtype=torch.bfloat16)
    turns = torch.outer(torch.arange(length), 10_000.0 ** (-torch.arange(0, features, 2) / features))
    angles = turns.cos().cuda(), turns.sin().cuda()
    plain, vector = Scores(features**-0.5), torch.rand(heads, device="cuda")
    for name, scores, rotation in (
        (f"window {length // 4}", plain._replace(window=length // 4), None),
        ("softcap", plain._replace(softcap=30.0), None),
        ("sinks", plain._replace(sinks=vector), None),
        ("slopes", plain._replace(slopes=vector), None),
        ("rope", plain, Rotation(*angles)),
        ("rope, interleaved", plain, Rotation(*angles, interleaved=True)),
    ):
        attend = partial(attend_packed, heads=(heads, shared), scores=scores, rotation=rotation)
        yield Contender(f"labkit, {name}", attend, [qkv.requires_grad_()], upstream)


def measured(shape: Shape, contender: Contender) -> Row:
    """One contender at one shape."""
    first = contender.both()
    differing = sum(
        any(not torch.equal(*pair) for pair in zip(first, contender.both(), strict=True)) for _ in range(AGAIN)
    )
    forward = 1e3 * replayed(lambda: contender.forward(*contender.inputs))
    both = 1e3 * replayed(contender.both)
    call = 1e3 * called(contender.both, times=3)
    return Row(str(shape), contender.name, forward, both, call, shape.flop / both / 1e9, differing)


def compared(
    shapes: tuple[Shape, ...] = SHAPES, names: tuple[str, ...] = PEERS, *, options: bool = False, told: Told = print
) -> Iterator[Row]:
    """labkit and its peers at each shape, and at the first what labkit's options cost."""
    for shape in shapes:
        more = optional(shape) if options and shape == shapes[0] else ()
        for contender in (*contenders(shape, list(names)), *more):
            try:
                yield measured(shape, contender)
            except Exception as error:  # a peer that does not run is no reason to stop
                told(f"{shape}, {contender.name}: left out: {brief(error)}")


HEADER = (
    f"{'shape':36} {'':26} {'forward, ms':>11} {'both, ms':>12} {'call, ms':>9} {'TFLOP/s':>8} differing of {AGAIN}"
)


def line(row: Row) -> str:
    """One row of the table."""
    times = f"{row.forward:11.3f} {row.both:12.3f} {row.call:9.3f}"
    return f"{row.shape:36} {row.name:26} {times} {row.tflops:8.0f} {row.differing:6}"
