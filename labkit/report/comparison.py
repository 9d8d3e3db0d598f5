"""The comparison: every arm of an experiment against its baseline, paired by seed."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from labkit.report.analysis import Analysis, Plan, analysed
from labkit.report.arms import Arm, Outcome, finite
from labkit.report.datasets import elsewhere
from labkit.report.footing import footing, header, measured
from labkit.report.matched import law, summary
from labkit.report.notes import Note, notes
from labkit.report.others import Other, others, uncorrected
from labkit.report.table import Rows, brief_rows, markdown, rows
from labkit.report.words import answer
from labkit.spec import Mistake
from labkit.tracking.atomic import Damaged
from labkit.tracking.mlflow import charts_page
from labkit.tracking.record import Edition, Run


@dataclass(frozen=True)
class Comparison:
    """An experiment's arms, the baseline first, as far as its records go."""

    title: str
    name: str
    edition: str
    question: str
    hypothesis: str
    metric: str
    match: str
    command: str
    """What runs it again."""
    seeds: tuple[int, ...]
    arms: tuple[Arm, ...]
    analysis: Analysis
    """What the verdicts rest on."""
    left_out: tuple[Outcome, ...]
    """Runs of variants as they were once written: other fingerprints, so no part of this comparison."""
    declared: tuple[Arm, ...] = ()
    """All arms of the file; those that nothing is on record of are no part of this comparison."""
    other_data: tuple[Outcome, ...] = ()
    """Runs of other data than the latest of their kind: what they came to does not compare."""
    charts: str = ""
    """The page of its curves in MLflow; empty where MLflow was not told of it."""
    damaged: tuple[str, ...] = ()
    """Why recorded runs could not be read."""

    @property
    def baseline(self) -> Arm:
        return self.arms[0]

    @property
    def variants(self) -> tuple[Arm, ...]:
        return self.arms[1:]

    @property
    def not_run(self) -> tuple[Arm, ...]:
        """The arms of the file that nothing is on record of."""
        known = {arm.name for arm in self.arms}
        return tuple(arm for arm in self.declared if arm.name not in known)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        return tuple(outcome for arm in self.arms for outcome in arm.outcomes)

    @property
    def answer(self) -> str:
        """What is better than the baseline and what is worse, by how much."""
        return answer(self.arms, self.metric)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What a reader has to know beside the numbers; empty where nothing is in doubt."""
        found = notes(
            self.arms,
            self.match,
            self.metric,
            not_run=[arm.name for arm in self.not_run],
            left_out=self.left_out,
            damaged=self.damaged,
            other_data=self.other_data,
        )
        return tuple(found)

    @cached_property
    def others(self) -> tuple[Other, ...]:
        """Every variant on the further validation sets, which decide nothing and are not corrected for."""
        return others(self.arms)

    @property
    def matched(self) -> str:
        """How near the variants are to the baseline in what they were matched on; empty where they were on nothing."""
        return summary([arm.matched for arm in self.variants if arm.matched])

    @property
    def law(self) -> str:
        """By which published law what is left is worth so many nats; empty where nothing is left."""
        return law([arm.matched for arm in self.variants if arm.matched])

    @property
    def header(self) -> str:
        """What stands over the table: the baseline, the seeds, the look, σ and M."""
        return header(self.baseline, self.analysis, self.metric)

    @property
    def footing(self) -> tuple[tuple[str, str], ...]:
        """What stands under the table, by name."""
        return tuple(
            footing(
                self.arms,
                self.analysis,
                matched=f"{self.matched} by {self.law}" if self.law else self.matched or self.match,
                notes=self.notes,
                data=self.facts("data"),
                others=uncorrected(self.others, self.metric.rpartition("/")[2].partition("_")[0]),
            )
        )

    @property
    def grounds(self) -> tuple[tuple[str, str], ...]:
        """The same with the noise and the placebos, for those who want to know what the verdicts rest on."""
        return (*measured(self.arms, self.analysis), *self.footing)

    @property
    def look(self) -> dict[str, Any]:
        """What the ledger keeps of the verdicts given now; empty where none is due."""
        if not self.analysis.at_look or not self.variants:
            return {}
        return {
            "seeds": self.analysis.seeds,
            "baseline": self.baseline.fingerprint,
            "margin": self.analysis.margin,
            "verdicts": {arm.name: arm.verdict.word for arm in self.variants if not arm.placebo},
            "placebos": {arm.name: arm.difference.excludes_zero for arm in self.variants if arm.placebo},
        }

    @property
    def hash(self) -> str:
        """Twelve digits of what was compared: every run by its fingerprint, with the figure that it came to."""
        runs = [(run.record["fingerprint"], run.final(self.metric)) for run in self.outcomes]
        told = finite([self.title, self.metric, self.analysis.margin, runs])
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]

    def facts(self, field: str) -> dict[str, list[Any]]:
        """Key -> every value that the records have for it in an object such as `data` or `versions`, none twice."""
        found: dict[str, list[Any]] = {}
        for outcome in self.outcomes:
            for key, value in outcome.record.get(field, {}).items():
                values = found.setdefault(key, [])
                values.extend([] if value is None or value in values else [value])
        return found

    def rows(self) -> Rows:
        """The table's headers, its rows of texts, and each column's alignment."""
        return rows(self.arms, self.metric)

    def brief_rows(self) -> Rows:
        """The same in short: each variant's difference, speed and verdict."""
        return brief_rows(self.arms, self.metric)

    def markdown(self) -> str:
        """Question, answer, table and notes."""
        told = {"Question": self.question, "Hypothesis": self.hypothesis, "Answer": self.answer, "": self.header}
        listed = [(note.kind, note.text) for note in self.notes]
        return markdown(self.title, told, self.rows(), [*self.footing, *listed]) + f"\n    {self.command}\n"

    def as_json(self) -> dict[str, Any]:
        """Everything as plain JSON values; null where there is no number."""
        return {
            "version": 1,
            "title": self.title,
            "experiment": self.name,
            "edition": self.edition,
            "question": self.question,
            "hypothesis": self.hypothesis,
            "answer": self.answer,
            "metric": self.metric,
            "match": self.match,
            "matched": self.matched,
            "law": self.law,
            "seeds": list(self.seeds),
            "header": self.header,
            "analysis": self.analysis.as_json(),
            "footing": dict(self.footing),
            "others": [other.as_json() for other in self.others],
            "arms": [arm.as_json() for arm in self.arms],
            "notes": [{"kind": note.kind, "text": note.text} for note in self.notes],
            "data": self.facts("data"),
            "versions": self.facts("versions"),
            "command": self.command,
            "hash": self.hash,
        }


def compare(edition: Edition) -> Comparison:
    """The comparison that an edition's records allow now; a half-finished experiment says what is missing.

    A run whose record cannot be read is left out. Raises Mistake where no experiment is described.
    """
    told = edition.description()
    if not told:
        raise Mistake(f"{edition.path}: there is no experiment.json here; run the experiment first")
    recorded = sorted((Outcome(run, run.record()) for run in edition.runs()), key=lambda outcome: outcome.started)
    declared = [_arm(fields, told, recorded) for fields in told["arms"]]
    everything = _begun(edition, declared)
    other_data = elsewhere(everything)
    recorded_arms = [arm.without(other_data) for arm in everything]
    arms, analysis = analysed(recorded_arms, told["metric"], Plan.of(told, _elsewhere(edition)))
    kept = {outcome.run for arm in everything for outcome in arm.outcomes}
    return Comparison(
        title=edition.title,
        name=edition.name,
        edition=edition.edition,
        question=told["question"],
        hypothesis=told["hypothesis"],
        metric=told["metric"],
        match=told["match"],
        command=told["command"],
        seeds=tuple(told["seeds"]),
        arms=arms,
        analysis=analysis,
        left_out=tuple(outcome for outcome in recorded if outcome.run not in kept),
        declared=tuple(declared),
        other_data=other_data,
        charts=charts_page(edition),
        damaged=tuple(edition.damaged()),
    )


def _begun(edition: Edition, arms: list[Arm]) -> list[Arm]:
    """The baseline and what has a run on record, be it planned or damaged; all where no arm has one.

    What was never run has no difference, so it takes no part in the family, and no look waits for it.
    """
    begun = {arm.name for arm in arms if arm.outcomes or _is_damaged(edition, arm)}
    return [arm for arm in arms if not begun or arm.is_baseline or arm.name in begun]


def _is_damaged(edition: Edition, arm: Arm) -> bool:
    """Whether a run of it has a record that cannot be read, so that nobody knows of which definition it is."""
    return any(Run(file.parent).fault for file in (edition.path / arm.name).glob("seed*/record.json"))


def _arm(fields: Mapping[str, Any], told: Mapping[str, Any], recorded: list[Outcome]) -> Arm:
    own = {outcome.seed: outcome for outcome in recorded if outcome.belongs_to(fields["name"], fields["fingerprint"])}
    return Arm(
        name=fields["name"],
        label=fields["label"],
        is_baseline=fields["baseline"],
        fingerprint=fields["fingerprint"],
        changes=fields["changes"],
        varied=fields["varied"],
        params=fields["params"],
        non_embedding=fields["non_embedding"],
        flops_per_token=fields["flops_per_token"],
        tokens=fields["tokens"],
        steps=fields["steps"],
        matched=fields.get("matched"),
        metric=told["metric"],
        seeds=tuple(told["seeds"]),
        outcomes=tuple(own[seed] for seed in sorted(own)),
        placebo=fields.get("placebo", False),
        refused=fields.get("refused", ""),
        tuned=fields.get("tuned", ""),
    )


def _elsewhere(edition: Edition) -> dict[str, bool]:
    """The placebos of all other editions beside this one's experiment, as they were last judged."""
    found: dict[str, bool] = {}
    for path in sorted(edition.path.parent.parent.glob("*/*/experiment.json")):
        other = Edition(path.parent)
        with suppress(Damaged):
            ledger = other.description().get("ledger", []) if other != edition else []
            found |= {
                f"{other.title} {name}": outside for name, outside in (ledger or [_NO_LOOK])[-1]["placebos"].items()
            }
    return found


_NO_LOOK: Mapping[str, Any] = {"placebos": {}}
