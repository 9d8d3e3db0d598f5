"""The second interval: how much a difference owes to the text it was evaluated on, by resampling its documents.

    Δ* = mean over seeds of  Σ_d w_d nats_ad / Σ_d w_d tokens_d  -  the same of the baseline,  w ~ multinomial(D, 1/D)

Arm and baseline are read on the same documents, so the weights w are the same for all arms and seeds. The ends are the
percentiles Φ(± √(E / (E - 1)) · t_{D-1}) instead of Φ(± 1.96), without which few documents give too narrow an interval
(Hesterberg, "What Teachers Should Know about the Bootstrap", arXiv:1411.5279, section 4.1.3). There all count alike and
E is D. The squares around a mean with the weights n_d / Σ n fall short by Σ n² / (Σ n)², so E = (Σ n)² / Σ n², the
documents of equal length that tell as much. In t that number would make the intervals far too wide (98 % where one
document has 40 % of the text), for resamples without the long document spread them already.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from labkit.report.arms import Arm, Outcome
from labkit.report.dunnett import student
from labkit.report.formats import listed, plural
from labkit.report.statistics import Interval
from labkit.tracking.documents import DocumentScores

Values = NDArray[np.float64]

LEVEL = 0.95

RESAMPLES = 4_000

BATCH = 250
"""So many resamples at a time, for the memory's sake."""

MOST = 2_048
"""Documents that are drawn one by one; where there are more, neighbours are drawn together in so many groups."""

FEW = 20
"""An interval over fewer documents than this is called weak."""

UNITS = {"loss": ("tokens", 1.0), "bpb": ("bytes", math.log(2))}
"""What a metric is a mean over, and its unit in nats."""


@dataclass(frozen=True)
class Text:
    """The evaluated text behind the second intervals."""

    documents: int = 0
    worth: float = 0.0
    """How many documents of equal length would tell as much."""
    reason: str = ""
    """Why some difference has no interval over documents; empty where all have one."""

    @property
    def weak(self) -> bool:
        """Whether there are so few documents that the interval itself is uncertain."""
        return 0 < self.worth < FEW


def second(arms: Sequence[Arm], metric: str) -> tuple[list[Interval | None], Text]:
    """Each arm's interval over documents, none of the baseline's; and the text that they rest on."""
    name, _, kind = metric.rpartition("/")
    if kind not in UNITS:
        return [None for _ in arms], Text(reason=f"{metric} is not kept document by document")
    field, unit = UNITS[kind]
    paired = {at: _paired(arm, arms[0]) for at, arm in enumerate(arms) if at and _shared(arm, arms[0])}
    unkept = {run.run: run for pairs in paired.values() for runs in pairs for run in runs if name not in run.documents}
    kept = {
        at: [[run.documents[name] for run in runs] for runs in pairs]
        for at, pairs in paired.items()
        if not any(run.run in unkept for runs in pairs for run in runs)
    }
    alike = {at: [*map(_mean, pairs)] for at, pairs in kept.items() if _alike([*pairs[0], *pairs[1]], field)}
    documents = len(next(iter(alike.values()))[0]) if alike else 0
    reasons = [
        *([_unkept([*unkept.values()])] if unkept else []),
        *(["other documents than the baseline's were evaluated"] if len(alike) < len(kept) else []),
        *(["a single document was evaluated"] if documents == 1 else []),
    ]
    if documents < 2:
        return [None for _ in arms], Text(documents, reason="; ".join(reasons))
    columns_KD = np.array(
        [row for pairs in alike.values() for at in pairs for row in (at.nats / unit, getattr(at, field))]
    )
    found = dict(zip(alike, _intervals(columns_KD), strict=True))
    return [found.get(at) for at in range(len(arms))], Text(documents, worth(columns_KD[1]), "; ".join(reasons))


def worth(sizes_D: Values) -> float:
    """How many documents of equal length tell as much: (Σ n)² / Σ n²."""
    return float(sizes_D.sum() ** 2 / (sizes_D**2).sum())


def _shared(arm: Arm, baseline: Arm) -> frozenset[int]:
    """The seeds of which both have a result."""
    return frozenset(arm.finals) & frozenset(baseline.finals)


def _paired(arm: Arm, baseline: Arm) -> list[list[Outcome]]:
    """The runs of the baseline and those of an arm, of the same seeds."""
    seeds = _shared(arm, baseline)
    return [[run for run in one.outcomes if run.seed in seeds] for one in (baseline, arm)]


def _unkept(runs: Sequence[Outcome]) -> str:
    names = [*dict.fromkeys(str(run.record["variant"]) for run in runs)]
    some = [*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else [])]
    have = "has" if len(runs) == 1 else "have"
    who = f"{plural(len(runs), 'run')} of {listed(some)}"
    return f"{who} {have} no losses by document to read; remove their folders, and run it again"


def _alike(scores: Sequence[DocumentScores], field: str) -> bool:
    """Whether all were evaluated on the same documents.

    The first token of a split is no target, and two tokenizers cut it elsewhere: its document may differ in bytes.
    """
    sizes = [getattr(at, field)[1:] for at in scores]
    return all(np.array_equal(size, sizes[0]) for size in sizes)


def _mean(scores: Sequence[DocumentScores]) -> DocumentScores:
    """Averaged over seeds, which all read the same tokens."""
    return replace(scores[0], nats=np.mean([at.nats for at in scores], axis=0))


def _intervals(columns_KD: Values) -> list[Interval]:
    """The ends of each arm's resampled difference; for each the sums and sizes of its baseline, then its own."""
    sums_KG = grouped(columns_KD)
    sums_RK = np.concatenate([weights_RG @ sums_KG.T for weights_RG in resamples(sums_KG.shape[1])])
    means_RK = sums_RK[:, 0::2] / np.maximum(sums_RK[:, 1::2], 1)
    tail = percentile(sums_KG.shape[1], worth(sums_KG[1]))
    ends = np.quantile(means_RK[:, 1::2] - means_RK[:, 0::2], [tail, 1 - tail], axis=0)
    return [(low, high) for low, high in ends.T.tolist()]


def grouped(columns_KD: Values) -> Values:
    """The sums over at most `MOST` groups of neighbouring documents."""
    documents = columns_KD.shape[1]
    if documents <= MOST:
        return columns_KD
    return np.add.reduceat(columns_KD, np.arange(MOST) * documents // MOST, axis=1)


def resamples(groups: int) -> Iterator[Values]:
    """How often each group is drawn, (resamples, groups) in batches; always the same for so many groups."""
    random = np.random.default_rng(0)
    rows = np.arange(BATCH)[:, None] * groups
    for _ in range(RESAMPLES // BATCH):
        drawn = random.integers(groups, size=(BATCH, groups)) + rows
        yield np.bincount(drawn.ravel(), minlength=BATCH * groups).reshape(BATCH, groups).astype(float)


def percentile(groups: int, equal: float) -> float:
    """The share of resamples below the interval, Φ(-√(E / (E - 1)) · t_{D-1}), of D worth `equal` E, two at least."""
    kept = max(equal, 2.0)
    return float(ndtr(-math.sqrt(kept / (kept - 1)) * student(LEVEL, groups - 1)))
