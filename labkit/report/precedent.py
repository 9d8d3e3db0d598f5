"""How much runs vary under given conditions, from the experiments on record."""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from labkit.report.arms import finite
from labkit.report.comparison import Comparison, compare
from labkit.report.formats import count, freedom, listed
from labkit.spec import Mistake
from labkit.tracking.record import Edition

ASSUMED = 0.01
"""Nats, where no experiment at all is on record: small models lie between 0.002 and 0.02."""

FEWEST = 2
"""Degrees of freedom below which what is on record is no more than a guess."""

ALIKE = 1.1
"""The ratio of two sizes up to which they count as one."""


@dataclass(frozen=True)
class Conditions:
    """What the noise of a run is looked up by."""

    metric: str
    params: int
    steps: int
    data: str
    """Corpus, validation share and tokenizer, as JSON has them."""
    batch: int
    """Tokens a step."""
    schedule: str
    precision: str

    @classmethod
    def of(cls, spec: Mapping[str, Any], metric: str, params: int, steps: int) -> Self:
        """Of a run spec as JSON."""
        data = repr([spec["data"], spec["tokenizer"]])
        batch = spec["batch_size"] * spec["model"]["context"]
        return cls(metric, params, steps, data, batch, repr(spec["schedule"]), spec["precision"])

    def differs(self, other: "Conditions") -> list[str]:
        """In what another one is not alike; the seeds say nothing of it then."""
        fields = ("metric", "steps", "data", "batch", "schedule", "precision")
        unlike = [name for name in fields if getattr(self, name) != getattr(other, name)]
        return unlike + (["size"] if not 1 / ALIKE <= self.params / other.params <= ALIKE else [])

    def distance(self, other: "Conditions") -> float:
        """How far the sizes of models and trainings are apart, in logarithms."""
        return abs(math.log(self.params / other.params)) + abs(
            math.log(self.steps * self.batch / other.steps / other.batch)
        )


@dataclass(frozen=True)
class Precedent:
    """σ of a run that pairing leaves, and where it comes from."""

    sigma: float
    dof: int
    """0 where it is only assumed."""
    source: str

    @property
    def pair(self) -> float:
        """Of a paired difference: √2 σ."""
        return math.sqrt(2) * self.sigma

    def as_json(self) -> dict[str, Any]:
        return finite({"sigma": self.sigma, "pair": self.pair, "dof": self.dof, "source": self.source})


def precedent(runs: Path, wanted: Conditions) -> Precedent:
    """σ pooled over the experiments on record under these conditions; where there is none, what is assumed, and why."""
    known = list(_recorded(runs, wanted.metric))
    alike = [(title, sigma, dof) for title, conditions, sigma, dof in known if not wanted.differs(conditions)]
    if alike:
        dof = sum(dof for _, _, dof in alike)
        sigma = math.sqrt(sum(dof * sigma**2 for _, sigma, dof in alike) / dof)
        titles = listed(title for title, _, _ in alike)
        if dof < FEWEST:
            few = f"assumed: {titles}, on record, with {freedom(dof)}, says next to nothing"
            return Precedent(max(sigma, ASSUMED), 0, few)
        return Precedent(sigma, dof, f"on record of {titles}")
    if known:
        title, conditions, sigma, _ = min(known, key=lambda each: wanted.distance(each[1]))
        other = listed(wanted.differs(conditions))
        what = f"the nearest, {title} ({count(conditions.params)} parameters), differs in {other}"
        return Precedent(sigma, 0, f"assumed: none is on record under these conditions; {what}")
    return Precedent(ASSUMED, 0, "assumed: no experiment with two seeds is on record here")


def _recorded(runs: Path, metric: str) -> Iterator[tuple[str, Conditions, float, int]]:
    """Title, conditions, σ and its degrees of freedom of every edition whose noise is measured in the metric."""
    for path in sorted(runs.glob("*/*/experiment.json")):
        with suppress(Mistake):
            found = compare(Edition(path.parent))
            if found.metric == metric and found.analysis.dof and found.baseline.outcomes and not _is_repeated(found):
                spec, baseline = found.baseline.outcomes[0].run.spec(), found.baseline
                conditions = Conditions.of(spec, metric, baseline.params, baseline.steps)
                yield found.title, conditions, found.analysis.sigma, found.analysis.dof


def _is_repeated(found: Comparison) -> bool:
    """Whether all of its runs were made for other experiments, which tell their noise already."""
    return all(run.record.get("answered_from") for arm in found.arms for run in arm.outcomes)
