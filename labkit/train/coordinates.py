"""The coordinate check of a parametrization (arXiv:2203.03466, appendix D.1).

The same model at several widths makes the same few steps. How large are its activations at the start, and how far does
training move them? Under muP neither grows with the width, and so the best learning rate does not shrink with it.

What a few steps show: initial values, learning rates and the multiplier of the logits. The scale of attention shows
late, when queries and keys have learned to agree.

B batch, T time.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import geometric_mean, linear_regression
from typing import Any

import torch
from torch import Tensor, nn

from labkit.components.branches import Stream
from labkit.components.mixing import Mixing, distances
from labkit.model import Transformer
from labkit.optim.weights import Weights
from labkit.train.execution import Eager
from labkit.train.run import RunSpec
from labkit.train.step import Step

TOLERANCE = 0.25
"""The steepest slope that counts as flat: half of 0.5, the least that a rule of muP left out should bring."""

ROWS, LENGTH = 4, 64
"""Of the batch that every step sees; shorter where the context is."""

TINY = 1e-30
"""Stands for zero, which has no logarithm."""

Sizes = Mapping[tuple[str, str], float]
"""(activation, quantity) -> mean of the absolute values."""


@dataclass(frozen=True)
class Line:
    """One kind of activation over the widths."""

    activation: str
    quantity: str
    """start: mean |x₀|; change: mean |x - x₀| after the steps."""
    values: tuple[float, ...]
    """One a width, the geometric mean over the seeds."""
    slope: float
    """Of log value over log width: value ∝ width^slope; infinite where a value is not finite."""

    @property
    def is_flat(self) -> bool:
        """Whether it does not grow. It may shrink: in scores and logits, what starts at random averages out."""
        return self.slope <= TOLERANCE


@dataclass(frozen=True)
class Effort:
    """How a model is trained for the check."""

    steps: int
    seeds: int
    """Of initial values and tokens: 0, 1, …"""
    vocab_size: int
    device: torch.device


def lines(specs: Sequence[RunSpec], effort: Effort, done: Callable[[], None] = lambda: None) -> list[Line]:
    """What the same run measures at several widths; `done` is told of every model that was trained."""
    widths = [spec.model.d_model for spec in specs]
    measured: list[list[Sizes]] = []
    for spec in specs:
        measured.append([])
        for seed in range(effort.seeds):
            measured[-1].append(sizes(spec, effort, seed))
            done()
    found: list[Line] = []
    for activation, quantity in measured[0][0]:
        values = tuple(_mean([of_seed[activation, quantity] for of_seed in at_width]) for at_width in measured)
        found.append(Line(activation, quantity, values, slope(widths, values)))
    return found


def sizes(spec: RunSpec, effort: Effort, seed: int) -> Sizes:
    """What one model measures at the start, and how far a few steps move it: in fp32, at a learning rate that rises."""
    with effort.device:
        model = Transformer(spec.model.patched({"dropout": 0.0}), effort.vocab_size)
    model.initialize(seed)
    weights = Weights(model, "fp32")
    factors = [(number + 1) / (effort.steps + 1) for number in range(effort.steps)]
    optimizer = spec.optimizer.build(weights)
    length = min(LENGTH, spec.model.context)
    step = Step(
        model,
        weights,
        optimizer,
        factors=factors,
        clip=spec.clip,
        batch_size=ROWS,
        length=length,
        rows=ROWS,
        dropout_seed=0,
        execution=Eager(),
    )
    tokens_BT = tokens(effort.vocab_size, length, seed)
    given_BT = tokens_BT[:, :-1].to(effort.device)
    before = activations(model, given_BT)
    for number in range(effort.steps):
        step(number, tokens_BT)
    after = activations(model, given_BT)
    return {
        (activation, quantity): size
        for activation, starts in before.items()
        for quantity, size in (
            ("start", _mean_size(starts)),
            ("change", _mean_size([x - start for x, start in zip(after[activation], starts, strict=True)])),
        )
    }


def tokens(vocab_size: int, length: int, seed: int) -> Tensor:
    """tokens_BT of T = length + 1: as in a text, the k-th most frequent is drawn with a probability ∝ 1 / k."""
    generator = torch.Generator().manual_seed(seed)
    odds_V = 1 / torch.arange(1, vocab_size + 1)
    return odds_V.multinomial(ROWS * (length + 1), replacement=True, generator=generator).view(ROWS, -1)


def activations(model: Transformer, tokens_BT: Tensor) -> dict[str, list[Tensor]]:
    """Each kind of activation by name, in the order that they arise; of those that every layer has, one a layer."""
    seen: dict[str, list[Tensor]] = {}
    with ExitStack() as stack, torch.no_grad():
        for name, module, of in _watched(model):
            stack.enter_context(module.register_forward_hook(_kept_in(seen, name, of)))
        model.eval()
        logits_BTV = model(tokens_BT)
        model.train()
    return {**seen, "logits": [logits_BTV]}


Read = Callable[[Any, Any, Any], Tensor]
"""(module, arguments, output) -> activation."""


def _watched(model: Transformer) -> Iterator[tuple[str, nn.Module, Read]]:
    yield "embedding", model.embedding_dropout, _output
    for layer in model.layers:
        for module in layer.modules():
            if isinstance(module, Mixing):
                yield "scores", module, _scores
        yield "attention", layer.attention, _output  # pyright: ignore[reportReturnType]
        yield "feed-forward", layer.feedforward, _output  # pyright: ignore[reportReturnType]
    yield "last stream", model.layers[-1], _stream


def _kept_in(seen: dict[str, list[Tensor]], name: str, read: Read) -> Callable[[Any, Any, Any], None]:
    def keep(module: Any, arguments: Any, output: Any) -> None:
        seen.setdefault(name, []).append(read(module, arguments, output))

    return keep


def _output(module: Any, arguments: Any, output: Any) -> Tensor:
    return output


def _stream(module: Any, arguments: Any, output: Any) -> Tensor:
    """The sum of what a layer leaves."""
    (value, *pending), _ = output
    return Stream(value, *pending).read()


def _scores(mixing: Mixing, arguments: Any, output: Any) -> Tensor:
    """Of the keys that each query sees, before cap and bias."""
    q_BHTd, k_BKSd, *_ = arguments
    hidden_TS = mixing.hidden(distances(q_BHTd.shape[2], k_BKSd.shape[2], 0, q_BHTd.device))
    return mixing.scale * mixing.grouped(q_BHTd, k_BKSd.mT)[..., ~hidden_TS]


def slope(widths: Sequence[int], values: Sequence[float]) -> float:
    """Of the straight line through (log width, log value); 0 where all values are, infinite where one is not finite."""
    if not all(map(math.isfinite, values)):
        return math.inf
    if not any(values):
        return 0.0
    points = [(math.log(width), math.log(max(value, TINY))) for width, value in zip(widths, values, strict=True)]
    return linear_regression(*zip(*points, strict=True)).slope


def _mean_size(found: Sequence[Tensor]) -> float:
    return sum(x.abs().mean().item() for x in found) / len(found)


def _mean(values: Sequence[float]) -> float:
    if not all(map(math.isfinite, values)):
        return math.inf
    return geometric_mean(values) if all(values) else 0.0
