"""An operation at one size, who computes it, and what was measured of each."""

import importlib
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from labkit.bench.measure import COLD, called, copied, differentiated, rounds

Function = Callable[..., tuple[Tensor, ...]]
Told = Callable[[str], None]
"""Hears what happens on the way."""


@dataclass(frozen=True)
class Case:
    """An operation at one size: how its inputs are made, and who computes it."""

    op: str
    size: str
    dtype: torch.dtype
    passes: list[int]
    """The fewest bytes of each pass: read and written."""
    inputs: Callable[[], list[Tensor]]
    small: Callable[[], list[Tensor]]
    """Inputs of a few rows, for the time of a call."""
    ours: Function
    peers: dict[str, Function]


@dataclass
class Row:
    """What was measured: microseconds; shares of the rate of a copy."""

    op: str
    size: str
    dtype: str
    bytes: int
    copy: float
    forward: dict[str, float] = field(default_factory=dict[str, float])
    both: dict[str, float] = field(default_factory=dict[str, float])
    call: dict[str, float] = field(default_factory=dict[str, float])
    """Of both passes."""
    extra: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def share(self) -> float:
        """labkit's, of the rate of a copy of equal bytes, forward and backward; not a number where it failed."""
        return self.copy / self.both.get("labkit", math.nan)


def brief(error: Exception) -> str:
    """Its kind and first line."""
    return f"{type(error).__name__}: {(str(error).strip() or '?').splitlines()[0][:200]}"


def leaf(*shape: int, dtype: torch.dtype, std: float = 1.0) -> Tensor:
    return (std * torch.randn(*shape, device="cuda", dtype=dtype)).requires_grad_()


def measured(case: Case, told: Told) -> Row:
    """Run everybody's version of a case, each on the same sets of inputs, one after the other; `told` who fails."""
    sets = [case.inputs() for _ in range(max(2, -(-COLD // sum(case.passes))))]
    upstream = [[torch.randn_like(output) for output in case.ours(*inputs)] for inputs in sets]
    turns = rounds(len(sets) * sum(case.passes))
    row = Row(case.op, case.size, str(case.dtype).removeprefix("torch."), sum(case.passes), 1e6 * copied(case.passes))
    small = case.small()
    gradients = [torch.randn_like(output) for output in case.ours(*small)]
    needed = [tensor for tensor in small if tensor.requires_grad]
    for name, function in {"labkit": case.ours, **case.peers}.items():
        try:
            forward, both = differentiated(function, sets * turns, upstream * turns)
            call = called(partial(_pass, function, small, needed, gradients))
        except Exception as error:  # a peer that does not run is no reason to stop
            told(f"{case.op} {case.size}, {name}: left out: {brief(error)}")
            continue
        row.forward[name], row.both[name], row.call[name] = 1e6 * forward, 1e6 * both, 1e6 * call
    return row


def _pass(function: Function, inputs: list[Tensor], needed: list[Tensor], gradients: list[Tensor]) -> None:
    torch.autograd.grad(function(*inputs), needed, gradients, allow_unused=True)


def one(function: Callable[..., Tensor]) -> Function:
    """A function of one result, as a case has it."""
    return lambda *inputs: (function(*inputs),)


def liger(path: str) -> Any:
    """Something of Liger's, or None where that is not installed."""
    logging.getLogger("liger_kernel").setLevel(logging.ERROR)  # it tells of every backend that is not here
    try:
        module, name = path.rsplit(".", 1)
        return getattr(importlib.import_module(f"liger_kernel.{module}"), name)
    except (ImportError, AttributeError):
        return None


def peers(names: list[str], reference: Any, theirs: Any) -> dict[str, Any]:
    """The reference in torch's own operations, the same compiled, and Liger's."""
    found: dict[str, Any] = {}
    if "torch" in names:
        found["torch"] = reference
    if "compile" in names:
        torch.compiler.reset()  # it gives up on a function that it has compiled for eight sizes
        found["compile"] = torch.compile(reference, dynamic=False)
    if "liger" in names and theirs:
        found["liger"] = theirs
    return found
