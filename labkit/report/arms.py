"""Arms: what an experiment's variants came to, as their runs' records tell it."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

from labkit.report.statistics import UNCOMPARED, Difference, Interval, mean, spread
from labkit.report.verdicts import NO_VERDICT, Verdict
from labkit.tracking import documents
from labkit.tracking.documents import DocumentScores
from labkit.tracking.mlflow import run_page
from labkit.tracking.record import Run, is_alone

LOSS, BITS = "val/loss", "val/bpb"
SPEED = "perf/tokens_per_s"
LONG = 40
"""Characters of a baseline's label that are told beside its name; longer ones list what the table of changes has."""
_KEPT = (
    *("fingerprint", "status", "step", "final", "started", "ended", "seconds", "epochs", "error"),
    *("diverged_at", "diverged_by"),
    *("device", "mode", "kernels", "precision"),
)


@dataclass(frozen=True)
class Outcome:
    """One recorded run."""

    run: Run
    record: Mapping[str, Any]

    @property
    def seed(self) -> int:
        return self.record["seed_index"]

    @property
    def status(self) -> str:
        return self.record["status"]

    @property
    def started(self) -> float:
        """Unix seconds; 0 for a run that never was."""
        return self.record.get("started") or 0.0

    @property
    def ended(self) -> float:
        """Unix seconds; NaN for a run that is not over."""
        return self.record.get("ended") or math.nan

    @property
    def windows(self) -> int:
        """On how many windows the loss is measured on the way; 0 where the spec does not say."""
        windows = self.run.spec().get("evaluation", {}).get("windows")
        return windows if isinstance(windows, int) else 0

    @property
    def shown(self) -> str:
        """Its page in MLflow; empty where MLflow was not told of it."""
        return run_page(self.run)

    @property
    def data_hash(self) -> str:
        """Of what it was trained and judged on; empty where the record does not say."""
        return self.record.get("data", {}).get("hash", "")

    def belongs_to(self, variant: str, arm: str) -> bool:
        """Whether it is a run of the variant as it is written now."""
        return (self.record["variant"], self.record["arm"]) == (variant, arm)

    def final(self, key: str) -> float:
        """A figure of a run that reached its end; NaN from any other, for a diverged run's last loss is no result."""
        value = self.record.get("final", {}).get(key) if self.status == "done" else None
        return math.nan if value is None else float(value)

    def as_json(self) -> dict[str, Any]:
        """The facts of the record that a comparison rests on."""
        return {"seed": self.seed, **{key: self.record[key] for key in _KEPT if key in self.record}}

    @property
    def metrics(self) -> dict[str, list[tuple[int, float]]]:
        """Each key's curve by ascending step."""
        return self._curves[0]

    @property
    def garbled(self) -> str:
        """Where lines of metrics are left out, and how many; empty where none is."""
        return self._curves[1]

    @cached_property
    def _curves(self) -> tuple[dict[str, list[tuple[int, float]]], str]:
        return self.run.curves()

    @cached_property
    def documents(self) -> dict[str, DocumentScores]:
        """What it scored on each document, by the validation set's name; empty where that is not on record."""
        return documents.kept(self.run)

    @property
    def rise(self) -> float:
        """How far the validation loss lies above its lowest when the run ends, in nats: 0 unless it rises."""
        losses = [loss for _, loss in self.metrics.get(LOSS, []) if math.isfinite(loss)]
        return losses[-1] - min(losses) if losses else 0.0


@dataclass(frozen=True)
class Arm:
    """The baseline or a variant, with its runs."""

    name: str
    label: str
    is_baseline: bool
    fingerprint: str
    changes: Mapping[str, Sequence[str]]
    """Path -> (in the baseline, here)."""
    varied: Mapping[str, Any]
    params: int
    non_embedding: int
    flops_per_token: float
    tokens: int
    steps: int
    metric: str
    seeds: tuple[int, ...]
    """The planned seeds."""
    outcomes: tuple[Outcome, ...]
    """One a seed, ascending; also of seeds that are no longer planned."""
    placebo: bool = False
    """Whether it is the baseline under other initial values."""
    refused: str = ""
    """Why it gets no verdict, whatever its runs say."""
    tuned: str = ""
    """The setting that it was found best at, where each arm was tuned by itself."""
    difference: Difference = UNCOMPARED
    """To the baseline, paired by seed."""
    matched: Mapping[str, Any] | None = None
    """What it was matched on, what was moved for it, and the residual; none of the baseline or where nothing is."""
    second: Interval | None = None
    """The 95 % interval of the difference over the evaluated documents; None where that is not measured."""
    verdict: Verdict = NO_VERDICT
    clocked: bool = True
    """Whether its speed is its own; not where arms of equal cost are unequally fast, so that something else is."""

    @property
    def text_error(self) -> float:
        """Half the width of the interval over documents; NaN without one."""
        return (self.second[1] - self.second[0]) / 2 if self.second else math.nan

    @property
    def title(self) -> str:
        """The name, and what it stands for where that says more."""
        if self.label.startswith(self.name):
            return self.label
        return f"{self.name} ({self.label})" if self.label and self.label != self.name else self.name

    @property
    def has_other_text(self) -> bool:
        """Whether it is scored on another text than the baseline."""
        return any(path.partition(".")[0] == "data" for path in self.changes)

    @property
    def flops(self) -> float:
        """Of the whole training."""
        return self.flops_per_token * self.tokens

    @property
    def done(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status == "done")

    @property
    def diverged(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status == "diverged")

    @property
    def missing(self) -> tuple[int, ...]:
        """Planned seeds that nothing is recorded of."""
        return tuple(sorted(set(self.seeds) - {outcome.seed for outcome in self.outcomes}))

    @property
    def total(self) -> int:
        """Runs recorded or planned."""
        return len(self.outcomes) + len(self.missing)

    @property
    def counts(self) -> dict[str, int]:
        """Status -> runs; `missing` are those that nothing is recorded of."""
        counted = Counter(outcome.status for outcome in self.outcomes)
        return dict(counted) | ({"missing": len(self.missing)} if self.missing else {})

    def without(self, runs: Sequence[Outcome]) -> "Arm":
        """The arm as if these runs were not on record."""
        return replace(self, outcomes=tuple(run for run in self.outcomes if run not in runs))

    @property
    def finals(self) -> dict[int, float]:
        """Seed -> the metric at the end, of the runs that reached it."""
        return finals(self.outcomes, self.metric)

    @property
    def mean(self) -> float:
        return mean(self.finals.values())

    @property
    def spread(self) -> float:
        """The standard deviation over seeds."""
        return spread(self.finals.values())

    @property
    def bits_per_byte(self) -> float:
        return mean(finals(self.outcomes, BITS).values())

    @property
    def tokens_per_s(self) -> float:
        """The median over runs that trained alone; NaN where none did, or where it says nothing of the arm."""
        return self.pace if self.clocked else math.nan

    @property
    def pace(self) -> float:
        """The same, whatever it is due to."""
        return median(finals([run for run in self.outcomes if is_alone(run.record)], SPEED).values() or [math.nan])

    @property
    def epochs(self) -> float:
        """The most that any run went over its data."""
        return max((outcome.record.get("epochs") or math.nan for outcome in self.done), default=math.nan)

    def as_json(self) -> dict[str, Any]:
        """The arm as plain JSON values; null where there is no number."""
        fields = ("name", "label", "fingerprint", "changes", "varied", "params", "non_embedding", "flops_per_token")
        more = ("tokens", "steps", "mean", "spread", "bits_per_byte", "epochs", "tokens_per_s", "counts")
        return finite(
            {field: getattr(self, field) for field in fields + more}
            | {
                "baseline": self.is_baseline,
                "matched": self.matched,
                "finals": {str(seed): value for seed, value in self.finals.items()},
                "placebo": self.placebo,
                "difference": asdict(self.difference),
                "second": self.second,
                "verdict": asdict(self.verdict),
                "runs": [outcome.as_json() for outcome in self.outcomes],
            }
        )


def finals(outcomes: Sequence[Outcome], key: str) -> dict[int, float]:
    """Seed -> the figure, of the runs that have it."""
    found = {outcome.seed: outcome.final(key) for outcome in outcomes}
    return {seed: value for seed, value in found.items() if not math.isnan(value)}


def finite(tree: Any) -> Any:
    """JSON knows no NaN: what is not finite becomes null."""
    if isinstance(tree, Mapping):
        return {key: finite(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [finite(value) for value in tree]
    return None if isinstance(tree, float) and not math.isfinite(tree) else tree
