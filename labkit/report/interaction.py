"""Whether a variant's effect changes with what it stands on: the difference of its differences to two baselines."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from labkit.report.apart import Apart, apart, briefly
from labkit.report.arms import Arm, finite
from labkit.report.comparison import Comparison
from labkit.report.dunnett import student
from labkit.report.formats import interval, signed
from labkit.report.looks import LEVEL
from labkit.report.statistics import mean, spread
from labkit.report.table import Alignment, Rows

TITLE = "does the effect change"
NOTE = "seeds that all four arms have; 95 % t intervals over them, each by itself: not corrected for several"


@dataclass(frozen=True)
class Interaction:
    """One change over two baselines, v₁ - b₁ and v₂ - b₂, in the metric's unit, over the seeds that all four have.

    d_s = (v₂s - b₂s) - (v₁s - b₁s),    d̄ ± t_{0.975, n-1} · sd(d) / √n

    The interaction contrast of a 2 × 2 design within seeds (Montgomery, Design and Analysis of Experiments, 5.2), by
    the paired t statistic. NaN where there is no seed, or one for an interval.
    """

    variant: str
    first: str
    second: str
    baselines: Apart
    """What the second baseline differs in from the first."""
    seeds: tuple[int, ...]
    before: float
    """v₁ - b₁."""
    after: float
    """v₂ - b₂."""
    mean: float
    low: float
    high: float

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values; null where there is no number."""
        return finite({**asdict(self), "corrected": False})


def interactions(comparisons: Sequence[Comparison], names: Sequence[str]) -> tuple[Interaction, ...]:
    """Every variant that stands with one name and one change on two baselines; against the first that has it."""
    first: dict[tuple[str, str], tuple[str, Arm, Arm]] = {}
    found: list[Interaction] = []
    for comparison, name in zip(comparisons, names, strict=True):
        for arm in comparison.variants:
            if not arm.placebo and arm.finals:
                where, base, same = first.setdefault((arm.name, _change(arm)), (name, comparison.baseline, arm))
                if base.fingerprint != comparison.baseline.fingerprint:
                    found.append(_between(where, (base, same), name, (comparison.baseline, arm)))
    return tuple(found)


def _change(arm: Arm) -> str:
    """What was written, without the size that was moved to match: that follows from the baseline."""
    moved = arm.matched["path"] if arm.matched else None
    return repr(sorted((path, *map(str, change)) for path, change in arm.changes.items() if path != moved))


def _between(first: str, one: tuple[Arm, Arm], second: str, other: tuple[Arm, Arm]) -> Interaction:
    seeds = sorted(set.intersection(*(set(arm.finals) for arm in (*one, *other))))
    before, after = ([arm.finals[seed] - base.finals[seed] for seed in seeds] for base, arm in (one, other))
    changes = [there - here for here, there in zip(before, after, strict=True)]
    n, center = len(seeds), mean(changes)
    half = student(LEVEL, n - 1) * spread(changes) / math.sqrt(n) if n > 1 else math.nan
    means = {"before": mean(before), "after": mean(after), "mean": center}
    differ = apart(other[0], one[0])
    name = one[1].name
    return Interaction(name, first, second, differ, tuple(seeds), **means, low=center - half, high=center + half)


def rows(found: Sequence[Interaction], metric: str) -> Rows:
    """Headers, a row a variant and pair of baselines, and each column's alignment."""
    headers = ["variant", "on", f"Δ {metric}", "then on", f"Δ {metric} there", "changes by", "95 % t", "seeds"]
    sides: list[Alignment] = ["left", "left", "right", "left", "right", "right", "right", "right"]
    return headers, [list(_row(one)) for one in found], sides


def _row(one: Interaction) -> Iterator[str]:
    yield from (one.variant, one.first, signed(one.before))
    yield f"{one.second}: {briefly(one.baselines)}" if one.baselines else one.second
    yield from (signed(one.after), signed(one.mean), interval(one.low, one.high), str(len(one.seeds)))
