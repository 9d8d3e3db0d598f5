"""What an arm costs, counted before anything runs, and how near the baseline matching brought it."""

import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.model import Costs, costs
from labkit.report.formats import listed
from labkit.spec import Mistake
from labkit.study.experiment import Arm
from labkit.study.names import brief
from labkit.study.own import defined, own_parts, told, where
from labkit.study.rehearsal import rehearse
from labkit.study.scaling import LAWS
from labkit.study.sizes import size_at
from labkit.study.trial import check_own
from labkit.tracking.progress import Progress

QUIET = Progress()
"""Nobody is told."""


@dataclass(frozen=True, eq=False)
class Counted:
    """An arm with what it costs, known before anything runs."""

    arm: Arm
    costs: Costs
    steps: int
    match: "Match | None" = None
    """How it was matched; the baseline never is, nor is anything under match="none"."""

    @property
    def tokens(self) -> int:
        """Of the whole training."""
        return self.steps * self.arm.spec.tokens_per_step

    @property
    def flops(self) -> float:
        """Of the whole training, forward and backward."""
        return self.costs.flops_per_token * self.tokens

    def quantity(self, match: str) -> float:
        """What `match` names: "params", "non_embedding", "active_params" or "flops"."""
        counts = {"params": self.costs.params, "non_embedding": self.costs.non_embedding}
        return {**counts, "active_params": self.costs.active, "flops": self.flops}[match]


@dataclass(frozen=True, eq=False)
class Match:
    """How near a variant is to the baseline, and what was moved for it."""

    on: str
    baseline: Counted
    written: Counted
    """The variant as the experiment has it."""
    final: float
    """The quantity that it came to."""
    path: str = ""
    """The size that was moved, in the variant's spec; empty where nothing was."""
    after: int = 0

    @property
    def before(self) -> int:
        return size_at(self.written.arm.spec, self.path) or 0

    @property
    def residual(self) -> float:
        """By how much of the baseline's quantity it is off, with its sign."""
        return self.final / self.baseline.quantity(self.on) - 1

    @property
    def unmatched(self) -> float:
        """The same as the experiment has it."""
        return self.written.quantity(self.on) / self.baseline.quantity(self.on) - 1

    @property
    def nats(self) -> float:
        """What the residual is worth in loss, by the law for what is matched."""
        return LAWS[self.on].worth(self.baseline.quantity(self.on), self.final)

    @property
    def is_moved(self) -> bool:
        return bool(self.path)

    def as_json(self) -> dict[str, Any]:
        written, costs = self.written, self.written.costs
        sizes = {"params": costs.params, "non_embedding": costs.non_embedding, "active_params": costs.active}
        return {
            "on": self.on,
            "path": self.path,
            "before": self.before,
            "after": self.after,
            "residual_percent": 100 * self.residual,
            "residual_nats": self.nats,
            "law": str(LAWS[self.on]),
            "written": {**sizes, "flops": written.flops, "residual_percent": 100 * self.unmatched},
        }


def counted(arm: Arm, base: Path, progress: Progress = QUIET) -> Counted:
    """Count an arm; relative paths of its tokenizer start at `base`, and `progress` is told of what takes long.

    Raises Mistake if it cannot be built, or its schedule does not fit into its budget.
    """
    try:
        with tried(arm, progress), redirect_stdout(sys.stderr):
            vocab = arm.spec.tokenizer.size(base)
            check_own(arm.spec, vocab)
            steps = arm.spec.steps(vocab)
            found = Counted(arm, costs(arm.spec.model, vocab), steps)
            rehearse(arm.spec, vocab, steps, base)
            return found
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        line = "" if isinstance(error, Mistake) else where(error, arm.spec, base)
        raise Mistake(f"{place(arm)}: {line}{told(error)}") from error


def tried(arm: Arm, progress: Progress, what: str = "tried on a few tokens") -> AbstractContextManager[None]:
    """What goes on with the user's own components of an arm, who knows how long."""
    names = [f"{type(part).__name__} ({defined(part)})" for part in own_parts(arm.spec)]
    if not names:
        return nullcontext()
    return progress.slow(f"{place(arm)}: {listed(names)} {'are' if names[1:] else 'is'} being {what}; Ctrl-C ends that")


def place(arm: Arm) -> str:
    """Which arm it is, for a message."""
    return arm.name if arm.name == "baseline" else f"variant {brief(arm.name)}"
