"""Traps, each of which has bitten a well-known kernel library: who falls for which.

One table, which the tests go through with labkit's kernels, and `labkit bench traps` with everybody's.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from labkit.bench import checks, compiled_checks, loss_checks
from labkit.bench.case import Told, brief
from labkit.bench.checks import Check, Fallen, Skipped, Tried
from labkit.bench.operations import Operation, operations

PROVIDERS = ("labkit", "torch", "liger")

NORMS = ("rms_norm", "layer_norm", "add_rms_norm")
ROWWISE = (*NORMS, "swiglu", "cross_entropy")
HEADS = ("rope", "attention")
ALL = (*ROWWISE, "linear_cross_entropy", *HEADS, "embedding")


class Trap(NamedTuple):
    """What may be wrong, with which operations, and how it shows."""

    about: str
    operations: tuple[str, ...]
    check: Check
    needs_gpu: bool = False
    """Sizes or compiled code that Triton's interpreter does not have."""


TRAPS = {
    "offsets": Trap("offsets past 2³¹ elements", ROWWISE, checks.far_offsets, needs_gpu=True),
    "odd-rows": Trap("rows that are no power of two", ROWWISE, checks.sizes((3, 48), (2, 7), (2, 1000))),
    "wide-rows": Trap("rows wider than one block", ROWWISE, checks.sizes((2, 20_000))),
    "few-rows": Trap("fewer rows than programs; one row", ROWWISE, checks.sizes((3, 64), (1, 64))),
    "no-rows": Trap("no row at all", ROWWISE, checks.sizes((0, 64))),
    "strides": Trap("inputs that are not contiguous", ROWWISE, checks.strides),
    "stride-0": Trap("an upstream gradient of stride 0", ALL, checks.sums),
    "heads-first": Trap("a transposed layout of heads", HEADS, checks.heads_first),
    "bf16-sums": Trap("the gradient of a weight summed in bf16", NORMS, checks.weight_sums),
    "bf16-chunks": Trap("… and over chunks", ("linear_cross_entropy",), checks.weight_sums, needs_gpu=True),
    "row-scales": Trap("the scale of one row applied to all", NORMS, checks.scales_of_rows),
    "both-gradients": Trap("gradients of the residual and of its norm", ("add_rms_norm",), checks.both_gradients),
    "certainty": Trap("a target's probability near 1", ("cross_entropy",), loss_checks.near_certainty),
    "ignored": Trap("ignored targets: all, some, none", ("cross_entropy",), loss_checks.ignored),
    "smoothing": Trap("label smoothing", ("cross_entropy",), loss_checks.option(smoothing=0.1)),
    "z-loss": Trap("z-loss", ("cross_entropy",), loss_checks.option(z=1e-2)),
    "softcap": Trap("soft-capped logits", ("cross_entropy",), loss_checks.option(softcap=3.0)),
    "mean": Trap("the mean over the tokens that count", ("cross_entropy",), loss_checks.option(reduction="mean")),
    "hidden-writes": Trap("in-place writes that autograd does not see", ALL, checks.hidden_writes),
    "same-tensor": Trap("the same tensor used twice", ("add_rms_norm", "attention"), checks.same_tensor),
    "twice": Trap("a second derivative that is silently wrong", ALL, checks.second_derivative),
    "fp64": Trap("Python floats that reach a kernel as fp64", ALL, compiled_checks.doubles, needs_gpu=True),
    "recompiled": Trap("a new kernel for every number of rows", ROWWISE, compiled_checks.new_shapes, needs_gpu=True),
    "same-bits": Trap("atomics whose order changes the result", ALL, checks.same_bits),
    "large-grids": Trap("more than 65535 programs on an axis", (*ROWWISE, *HEADS), checks.large_grids, needs_gpu=True),
    "llama": Trap("Llama's casting: round, then multiply", ("rms_norm",), checks.casting("llama")),
    "gemma": Trap("Gemma's casting: (1 + w) in fp32", ("rms_norm in gemma's casting",), checks.casting("gemma")),
    "odd-lengths": Trap("lengths that are no multiple of 128", ("attention",), checks.odd_lengths, needs_gpu=True),
    "sources": Trap("autotuners that rerun a kernel; make_block_ptr", ALL, compiled_checks.sources),
}


@dataclass
class Row:
    """One trap and one operation: by provider what came of it."""

    trap: str
    operation: str
    verdicts: dict[str, str] = field(default_factory=dict[str, str])
    """passes, refuses (an error says so), falls (silently wrong), or – where it is not there."""
    details: dict[str, str] = field(default_factory=dict[str, str])


def verdict(trap: Trap, name: str, operation: Operation, provider: str, device: torch.device) -> tuple[str, str]:
    """What comes of a trap and the operation of that name, and in what way."""
    way = operation.way(provider)
    if way is None:
        return "–", "not there"
    torch.manual_seed(0)
    try:
        trap.check(Tried(name, operation, way, provider, device))
    except Skipped as reason:
        return "–", str(reason)
    except Fallen as fault:
        return "falls", str(fault)
    except Exception as error:
        return "refuses", brief(error)
    return "passes", ""


def tried(names: list[str], providers: list[str], told: Told) -> Iterator[Row]:
    """Every trap by every operation and provider, on the GPU; `told` hears what is wrong."""
    device, known = torch.device("cuda"), operations()
    for name in names:
        trap = TRAPS[name]
        for operation in trap.operations:
            row = Row(name, operation)
            for provider in providers:
                row.verdicts[provider], row.details[provider] = verdict(
                    trap, operation, known[operation], provider, device
                )
                if row.verdicts[provider] in ("falls", "refuses"):
                    told(f"{provider} {row.verdicts[provider]}: {operation}: {row.details[provider]}")
            yield row
        checks.release()


HEADER = f"{'trap':48} {'operation':28} {'labkit':>8} {'torch':>8} {'liger':>8}"


def line(row: Row) -> str:
    """One row of the table."""
    cells = " ".join(f"{row.verdicts.get(provider, ''):>8}" for provider in PROVIDERS)
    return f"{TRAPS[row.trap].about:48} {row.operation:28} {cells}"
