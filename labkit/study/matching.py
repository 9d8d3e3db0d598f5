"""What the variants have in common with the baseline: counted, and refused where it does not hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit.model import Costs, costs
from labkit.spec import Mistake
from labkit.study.experiment import Arm

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
        vocab = arm.spec.tokenizer.size(base)
        steps = arm.spec.steps(vocab)
        return Counted(arm, costs(arm.spec.model, vocab), steps)
    except Mistake as error:
        raise Mistake(f"{_place(arm)}: {error}") from error


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
            raise Mistake(f"variant {variant.arm.name!r}: match={match!r} does not hold: {apart}; {remedy}")


def _place(arm: Arm) -> str:
    return arm.name if arm.name == "baseline" else f"variant {arm.name!r}"
