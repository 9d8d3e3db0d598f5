"""The analysis of an experiment: one noise for all arms, the look that it stands at, and a verdict for each arm."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from scipy.special import bdtrc

from labkit.report.arms import BITS, LOSS, Arm, finals, finite
from labkit.report.formats import plural, value
from labkit.report.looks import LEVEL, levels
from labkit.report.model import ALONE, Family, Noise, Table, against, family, noise, removed, table
from labkit.report.notes import EPOCHS, unequal, unequal_speeds
from labkit.report.power import MOST, resolvable, settling
from labkit.report.resampling import Text, second
from labkit.report.statistics import UNCOMPARED, Difference, mean, none
from labkit.report.twins import twins
from labkit.report.verdicts import Rules, Verdict, judged

MARGIN = 0.005
"""Nats, below which a difference is negligible where an experiment says nothing else."""

RARE = 0.05
"""As many placebos outside as come with less than this chance are more than expected."""


@dataclass(frozen=True)
class Plan:
    """What was declared, and what has been said already."""

    seeds: int
    in_file: int
    """Seeds that the experiment's file has; more than are asked for where the command line said fewer."""
    looks: tuple[int, ...]
    """Seeds at which a verdict was to be given; empty for one look at the end."""
    margin: float
    """M, in nats."""
    ledger: tuple[Mapping[str, Any], ...]
    """The verdicts given on this baseline, ascending by seeds."""
    elsewhere: Mapping[str, bool]
    """The placebos of all other editions on record -> whether 0 lay outside its interval."""

    @classmethod
    def of(cls, told: Mapping[str, Any], elsewhere: Mapping[str, bool]) -> Self:
        """From an experiment's description."""
        baseline = told["arms"][0]["fingerprint"]
        ledger = [look for look in told.get("ledger", []) if look["baseline"] == baseline]
        return cls(
            seeds=len(told["seeds"]),
            in_file=max(told.get("seeds_in_file", 0), len(told["seeds"])),
            looks=tuple(told.get("looks") or ()),
            margin=told.get("margin", MARGIN),
            ledger=tuple(sorted(ledger, key=lambda look: look["seeds"])),
            elsewhere=elsewhere,
        )


@dataclass(frozen=True)
class Analysis:
    """What all verdicts of an experiment rest on."""

    seeds: int
    """Seeds that every arm has come to the end of."""
    in_file: int
    """Seeds that the experiment's file has."""
    looks: tuple[int, ...]
    """Seeds of all looks, declared or taken, ascending."""
    declared: bool
    """Whether all of them were declared, or there is but one."""
    level: float
    """Of the simultaneous intervals at this look; the looks together keep 95 %."""
    sigma: float
    """The standard deviation of a run that pairing leaves, pooled over the arms."""
    dof: int
    margin: float
    """M, in nats."""
    metric_margin: float
    """M in the metric's unit."""
    removed: float
    """The share of the variance that pairing took away."""
    resolves: float
    """The difference that these seeds show with 80 % power."""
    outside: int
    """Placebos on record whose own 95 % interval excludes 0."""
    placebos: int
    """Placebos on record."""
    ledger: tuple[Mapping[str, Any], ...]
    """Verdicts given at fewer seeds."""
    text: Text
    """What the intervals over documents rest on."""

    @property
    def at_look(self) -> bool:
        """Whether a verdict is due: between looks there is none."""
        return self.seeds in self.looks

    @property
    def look(self) -> int:
        """The number of the look that stands, or comes next, from 1."""
        return sum(seeds < self.seeds for seeds in self.looks) + 1

    @property
    def last(self) -> bool:
        """Whether no look is to come, so that a tie may be shown."""
        return self.looks[-1:] <= (self.seeds,)

    @property
    def due(self) -> int:
        """The seeds of the look that stands, or comes next; 0 where none comes."""
        return next((seeds for seeds in self.looks if seeds >= self.seeds), 0)

    @property
    def expected(self) -> bool:
        """Whether no more placebos lie outside than chance explains: P(X ≥ outside), X binomial at 5 % each."""
        return not self.outside or float(bdtrc(self.outside - 1, self.placebos, 0.05)) >= RARE

    def as_json(self) -> dict[str, Any]:
        """Every figure as plain JSON values; null where there is no number."""
        return finite(asdict(self) | {"at_look": self.at_look, "look": self.look, "expected": self.expected})


def analysed(arms: Sequence[Arm], metric: str, plan: Plan) -> tuple[tuple[Arm, ...], Analysis]:
    """The arms with their differences and verdicts, and what these rest on."""
    y_AS, same = table(arms), twins(arms)
    rows = [row for row, arm in enumerate(arms) if row not in same and not arm.has_other_text]
    compared = [row for row in rows if row and not arms[row].placebo]
    seeds = _complete(arms)
    looks = _looks(plan, seeds)
    due = next((at for at, look in enumerate(looks) if look >= seeds), len(looks) - 1)
    level = levels(looks, len(compared), len(rows))[due] if looks else LEVEL
    found, whole = noise(y_AS[rows]).at(rows), family(y_AS[[0, *compared]])
    gaps = [_gap(y_AS, row, arm, found, whole=whole, level=level) for row, arm in enumerate(arms)]
    gaps = [none(gap.n) if same.get(row) == arms[0].name else gap for row, gap in enumerate(gaps)]
    intervals, text = second(arms, metric)
    arms = [replace(arm, second=interval) for arm, interval in zip(arms, intervals, strict=True)]
    outside = dict(plan.elsewhere)
    if seeds in looks:
        outside |= {arm.name: gap.excludes_zero for arm, gap in zip(arms, gaps, strict=True) if arm.placebo}
    analysis = Analysis(
        seeds=seeds,
        in_file=plan.in_file,
        looks=looks,
        declared=len(looks) < 2 or set(looks) <= set(plan.looks),
        level=level,
        sigma=found.sigma,
        dof=found.dof,
        margin=plan.margin,
        metric_margin=plan.margin * _per_nat(arms[0], metric),
        removed=removed(y_AS[rows]),
        resolves=resolvable(found.pair / math.sqrt(max(seeds, 1)), len(compared), found.dof, level),
        outside=sum(outside.values()),
        placebos=len(outside),
        ledger=tuple(look for look in plan.ledger if look["seeds"] < seeds),
        text=text,
    )
    pooled = len(rows) - 1 - len(found.unstable)
    size = {"arms": whole.size, "pooled": pooled}
    verdicts = [_verdict(arm, arms[0], gap, analysis, **size) for arm, gap in zip(arms, gaps, strict=True)]
    verdicts = [_twin(same[row]) if row in same else verdict for row, verdict in enumerate(verdicts)]
    told, clocked = zip(arms, gaps, verdicts, strict=True), unequal_speeds(arms) is None
    judged_arms = (replace(arm, difference=gap, verdict=verdict, clocked=clocked) for arm, gap, verdict in told)
    return tuple(judged_arms), analysis


def _complete(arms: Sequence[Arm]) -> int:
    """How many seeds every arm has come to the end of; diverging is an end."""
    ends = [arm.finals.keys() | {run.seed for run in arm.diverged} for arm in arms]
    return len(frozenset.intersection(*map(frozenset, ends)))


def _looks(plan: Plan, seeds: int) -> tuple[int, ...]:
    """Those declared, those taken, and one at more seeds than were declared: raising the seeds is another look."""
    end = max(plan.seeds, seeds)
    known = {*plan.looks, *(look["seeds"] for look in plan.ledger)}
    known |= {end} if end > max(plan.looks, default=0) else set()
    return tuple(sorted(look for look in known if look > 1))


def _per_nat(baseline: Arm, metric: str) -> float:
    """The metric's unit in nats a token: 1 for losses; for bits per byte what they come to in the baseline's runs."""
    if metric != BITS:
        return 1.0
    return mean(finals(baseline.outcomes, BITS).values()) / mean(finals(baseline.outcomes, LOSS).values())


def _gap(y_AS: Table, row: int, arm: Arm, found: Noise, *, whole: Family, level: float) -> Difference:
    """The baseline's own has no seeds, so no numbers; a placebo's interval is its own 95 %."""
    if arm.is_baseline:
        return UNCOMPARED
    return against(y_AS, row, found, *((ALONE, LEVEL) if arm.placebo else (whole, level)))


def _verdict(arm: Arm, baseline: Arm, gap: Difference, analysis: Analysis, *, arms: int, pooled: int) -> Verdict:
    if arm.is_baseline:
        return Verdict("none", reason="the baseline")
    if arm.placebo:
        return Verdict("placebo", reason=_placebos(gap, analysis))
    if arm.refused or (gap.n > 1 and not analysis.at_look):
        return Verdict("none", unstable=gap.unstable, reason=arm.refused or _waiting(analysis))

    def further(gap: Difference) -> tuple[int, int]:
        sigma, variants = gap.error * math.sqrt(gap.n / 2), 1 if gap.unstable else max(pooled, 1)
        ends = settling(gap.mean, analysis.metric_margin, sigma, gap.dof, arms=arms, variants=variants)
        few, many = (end if end > MOST else max(1, end - gap.n) for end in ends)
        return few, many

    nats = abs(arm.matched["residual_nats"]) if arm.matched else 0.0
    residual = nats * analysis.metric_margin / analysis.margin
    verdict = judged(gap, Rules(analysis.metric_margin, analysis.last, further), arm.second, residual)
    lost = {run.seed for run in arm.diverged} - {run.seed for run in baseline.diverged}
    if lost and verdict.word == "win":
        ended = len(arm.done) + len(arm.diverged)
        return Verdict("none", unstable=gap.unstable, reason=f"{len(arm.done)} of {ended} survived: cannot win")
    rise = mean(run.rise for run in arm.done)
    if verdict.word == "win" and rise > analysis.margin:
        return Verdict("none", unstable=gap.unstable, reason=f"{LOSS} rises by {value(rise)} to its end: cannot win")
    limited = verdict.word != "none" and max(arm.epochs, baseline.epochs) > EPOCHS
    return replace(verdict, data_limited=limited, unequal=_unequal(arm, baseline))


def _twin(name: str) -> Verdict:
    return Verdict("none", reason=f"one model with {name}: equal in every digit")


def _unequal(arm: Arm, baseline: Arm) -> tuple[str, ...]:
    """What a variant that is matched on nothing has more or less of."""
    words = {"params": "params", "flops": "FLOPs", "tokens": "tokens"}
    apart = {} if arm.matched else unequal(arm, baseline)
    return tuple(f"{100 * (ratio - 1):+.0f} % {words[name]}" for name, ratio in apart.items())


def _placebos(gap: Difference, analysis: Analysis) -> str:
    """What the placebos on record say, and that this one's interval is no part of the simultaneous ones."""
    if not math.isfinite(gap.mean):
        return "no pair of seeds"
    if not analysis.placebos:
        return f"{'its own 95 %; ' if gap.has_interval else ''}{_waiting(analysis)}"
    expected = "as expected" if analysis.expected else "more than expected"
    return f"{analysis.outside} of {analysis.placebos} outside their own 95 %: {expected}"


def _waiting(analysis: Analysis) -> str:
    return f"the look at {plural(analysis.due, 'seed')} is not reached: {analysis.seeds} complete"
