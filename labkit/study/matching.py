"""What the variants have in common with the baseline: counted, and refused where it does not hold."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from labkit.components import Place
from labkit.model import Costs, ModelSpec, costs
from labkit.spec import Choice, Mistake
from labkit.study.experiment import Arm
from labkit.study.loading import line_of, said, short
from labkit.study.names import brief

TOLERANCE = 0.01
"""How far a matched quantity may be off, relative to the baseline's."""


@dataclass(frozen=True, eq=False)
class Counted:
    """An arm with what it costs, known before anything runs."""

    arm: Arm
    costs: Costs
    steps: int

    @property
    def tokens(self) -> int:
        """Of the whole training."""
        return self.steps * self.arm.spec.tokens_per_step

    @property
    def flops(self) -> float:
        """Of the whole training, forward and backward."""
        return self.costs.flops_per_token * self.tokens

    def quantity(self, match: str) -> float:
        """What `match` names: "params", "non_embedding" or "flops"."""
        return {"params": self.costs.params, "non_embedding": self.costs.non_embedding, "flops": self.flops}[match]


def counted(arm: Arm, base: Path) -> Counted:
    """Count an arm; relative paths of its tokenizer start at `base`.

    Raises Mistake if it cannot be built, or its schedule does not fit into its budget.
    """
    try:
        with redirect_stdout(sys.stderr):
            vocab = arm.spec.tokenizer.size(base)
            _check_own(arm.spec.model, vocab)
            steps = arm.spec.steps(vocab)
            return Counted(arm, costs(arm.spec.model, vocab), steps)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        where = "" if isinstance(error, Mistake) else _where(error, arm.spec.model, base)
        raise Mistake(f"{_place(arm)}: {where}{said(error)}") from error


def _own(model: ModelSpec) -> list[tuple[str, Any]]:
    """The user's components of a model, by their fields."""
    parts = [(name, part) for name, part in model if isinstance(part, Choice)]
    return [(name, part) for name, part in parts if not type(part).__module__.startswith("labkit.")]


def _check_own(model: ModelSpec, vocab: int) -> None:
    """Raise Mistake where a user's component does not build a module."""
    width, place = model.d_model, Place(0, model.n_layers, model.context)
    calls: dict[str, tuple[Any, ...]] = {
        "norm": (width, place),
        "feedforward": (width, place),
        "position": (width, place),
        "attention": (width, place, model.position, model.dropout.attention),
        "head": (vocab, width),
    }
    for name, part in _own(model):
        if name not in calls:
            continue
        with torch.device("meta"):
            built = part.build(*calls[name])
        if not isinstance(built, nn.Module):
            raise Mistake(f"{_defined(part)}: {type(part).__name__}.build gives {built!r}; let it return an nn.Module")


def _where(error: BaseException, model: ModelSpec, base: Path) -> str:
    """The user's line that the error went through; else where the component that it must come from is defined."""
    line, own = line_of(error, base / "-"), _own(model)
    if line != short(base / "-"):
        return f"{line}: "
    return f"{_defined(own[0][1])}: " if own else ""


def _defined(part: Any) -> str:
    """The file and the line of a component's `build`."""
    code = type(part).build.__code__
    return f"{short(Path(code.co_filename))}:{code.co_firstlineno}"


def check_match(arms: Sequence[Counted], match: str) -> None:
    """Raise Mistake unless every variant has the baseline's quantity within 1 %."""
    if match == "none":
        return
    base, *variants = arms
    for variant in variants:
        here, there = base.quantity(match), variant.quantity(match)
        if abs(there / here - 1) > TOLERANCE:
            apart = f"{there:,.0f} against the baseline's {here:,.0f} ({there / here - 1:+.1%})"
            remedy = "change a size until they agree within 1 %, or write match='none'"
            raise Mistake(f"{_place(variant.arm)}: match={match!r} does not hold: {apart}; {remedy}")


def _place(arm: Arm) -> str:
    return arm.name if arm.name == "baseline" else f"variant {brief(arm.name)}"
