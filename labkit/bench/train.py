"""Whole training steps of four Llama-like models in bf16: labkit's kernels, torch's operations, torch.compile.

T tokens of a sequence, B sequences of a batch, V vocabulary.
"""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labkit.bench.measure import Work
from labkit.kernels import Kernels
from labkit.model import ModelSpec, Transformer, costs
from labkit.optim.optimizer import Adamw
from labkit.optim.weights import Weights
from labkit.train.captured import Captured
from labkit.train.device import settings
from labkit.train.execution import Compiled, Eager
from labkit.train.run import Runtime
from labkit.train.step import Step

SETTLING, TURNS = 6, 3
BATCHES = 4


@dataclass(frozen=True)
class Setup:
    """A model and the batch of one step."""

    spec: ModelSpec
    vocab_size: int
    batch_size: int

    @property
    def tokens(self) -> int:
        return self.batch_size * self.spec.context


def llama(width: int, layers: int, heads: tuple[int, int], d_ff: int, context: int) -> ModelSpec:
    """RMSNorm, SwiGLU, interleaved RoPE, grouped queries, a tied head."""
    return ModelSpec.from_json(
        {
            "d_model": width,
            "n_layers": layers,
            "context": context,
            "norm": "rms",
            "residual": "pre",
            "attention": {"kind": "gqa", "n_heads": heads[0], "n_kv_heads": heads[1]},
            "feedforward": {"kind": "swiglu", "d_ff": d_ff},
            "position": {"kind": "rope", "layout": "interleaved"},
            "head": "tied",
            "init": "scaled_residual",
        }
    )


SETUPS = {
    "launch-bound": Setup(llama(256, 6, (8, 4), 768, 512), 8192, 16),
    "13M": Setup(llama(256, 6, (8, 4), 768, 1024), 32_000, 32),
    "124M": Setup(llama(768, 12, (12, 12), 2048, 1024), 50_304, 32),
    "1B": Setup(llama(2048, 16, (32, 8), 8192, 2048), 32_000, 8),
}
CONTENDERS: dict[str, tuple[Kernels, type[Eager]]] = {
    "labkit": ("auto", Captured),
    "labkit-eager": ("auto", Eager),
    "torch": ("torch", Captured),
    "torch-eager": ("torch", Eager),
    "compile": ("torch", Compiled),
}


@dataclass(frozen=True)
class Row:
    """What was measured of one contender on one setup, in exact mode."""

    setup: str
    name: str
    how: str
    """captured, compiled or eager: what became of it."""
    tokens_per_s: float
    tflops: float
    """Of forward and backward, causal attention counted once."""
    first_step: float
    """Seconds from the model's building to the end of its first step."""
    host: float
    """Seconds that the host takes for a step."""
    memory: float
    """GiB, at the peak."""


def compared(setups: list[str], names: list[str], steps: int) -> Iterator[Row]:
    """Every setup by every contender, each in its own settings; one that runs out of memory is left out."""
    for setup in setups:
        for name in names:
            yield measured(setup, name, steps)


def measured(setup: str, name: str, steps: int, device: str = "cuda") -> Row:
    """One contender: the median of a few turns of so many steps, after some that are not counted."""
    chosen, (kernels, execution) = SETUPS[setup], CONTENDERS[name]
    with settings(Runtime(device=device, kernels=kernels)) as place:
        start = time.perf_counter()
        step = _step(chosen, place, execution())
        batches, made = tokens(chosen), 0

        def turn(count: int) -> None:
            nonlocal made
            for _ in range(count):
                step(made, batches[made % BATCHES])
                made += 1
                list(step.readings())

        turn(1)
        list(step.readings(0))
        first = time.perf_counter() - start
        turn(SETTLING)
        list(step.readings(0))
        seconds = statistics.median(_timed(lambda: (turn(steps), list(step.readings(0)))) / steps for _ in range(TURNS))
        host = _timed(lambda: step(made, batches[0]))
        list(step.readings(0))
        memory = torch.cuda.max_memory_allocated(place) / 2**30 if place.type == "cuda" else 0.0
        flops = costs(chosen.spec, chosen.vocab_size).flops_per_token
        speed = chosen.tokens / seconds
        return Row(setup, name, step.made.how, speed, speed * flops / 1e12, first, host, memory)


def _timed(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _step(setup: Setup, device: torch.device, execution: Eager) -> Step:
    with device:
        model = Transformer(setup.spec, setup.vocab_size)
    model.initialize(0)
    weights = Weights(model, "bf16")
    step = Step(
        model,
        weights,
        Adamw(lr=6e-4).build(weights),
        factors=[1.0] * 10_000,
        clip=1.0,
        batch_size=setup.batch_size,
        length=setup.spec.context,
        rows=setup.batch_size,
        dropout_seed=0,
        execution=execution,
    )
    step.prepare()
    return step


def tokens(setup: Setup) -> list[Tensor]:
    """Batches as of a text: the k-th most frequent token is drawn with a probability ∝ 1 / k."""
    odds_V = 1 / torch.arange(1, setup.vocab_size + 1)
    generator = torch.Generator().manual_seed(0)
    size = (setup.batch_size, setup.spec.context + 1)
    count = size[0] * size[1]
    drawn: Any = (odds_V.multinomial(count, replacement=True, generator=generator) for _ in range(BATCHES))
    return [batch.view(size) for batch in drawn]


COLUMNS = f"{'tokens/s':>10} {'TFLOP/s':>8} {'first step, s':>14} {'host, ms':>9} {'GiB':>6}"
HEADER = f"{'model':14} {'':14} {'':10} {COLUMNS}"


def line(row: Row) -> str:
    """One row of the table."""
    return (
        f"{row.setup:14} {row.name:14} {row.how:10} {row.tokens_per_s:10,.0f} {row.tflops:8.0f} "
        f"{row.first_step:14.2f} {1e3 * row.host:9.2f} {row.memory:6.1f}"
    )
