"""The answer in words: they follow from the numbers alone."""

from collections.abc import Sequence

from labkit.report.arms import Arm
from labkit.report.formats import interval, listed, plural, value

NAMED = 8
"""How many variants the answer names before it only counts."""


def answer(arms: Sequence[Arm], metric: str) -> str:
    """Which variants are better than the baseline and which are worse, by how much, the best first.

    Better is lower, for all metrics are losses: nats a token or bits a byte.
    """
    baseline, *variants = arms
    compared = sorted((arm for arm in variants if arm.difference.n), key=lambda arm: arm.difference.mean)
    measured = [arm for arm in compared if arm.difference.has_interval]
    if not variants:
        return f"The baseline alone: {metric} {value(baseline.mean)} over {plural(len(baseline.finals), 'seed')}."
    if not compared:
        return "Nothing to compare yet: no variant has a seed that both it and the baseline have finished."
    parts = [*_clear(measured), *_unclear(measured), *_single([arm for arm in compared if arm not in measured])]
    return f"In {metric}, {'; '.join(parts)}.{_footing(measured)}"


def _clear(measured: Sequence[Arm]) -> list[str]:
    """Those whose interval excludes zero, the better ones first."""
    better = [arm for arm in measured if arm.difference.high < 0]
    worse = [arm for arm in measured if arm.difference.low > 0]
    said = [f"{arm.name} is better{_than(not at)} by {_by(arm)}" for at, arm in enumerate(better[:NAMED])]
    said += [f"{len(better) - NAMED} more are better"] if len(better) > NAMED else []
    said += [f"{arm.name} is worse{_than(not better and not at)} by {_by(arm)}" for at, arm in enumerate(worse[:NAMED])]
    return said + ([f"{len(worse) - NAMED} more are worse"] if len(worse) > NAMED else [])


def _than(first: bool) -> str:
    return " than the baseline" if first else ""


def _by(arm: Arm) -> str:
    """How much it is better or worse, as positive numbers: 0.0195 [0.0132, 0.0258]"""
    ends = sorted((abs(arm.difference.low), abs(arm.difference.high)))
    return f"{value(abs(arm.difference.mean))} [{', '.join(map(value, ends))}]"


def _unclear(measured: Sequence[Arm]) -> list[str]:
    unclear = [arm for arm in measured if not arm.difference.excludes_zero]
    spans = [f"({interval(arm.difference.low, arm.difference.high)})" for arm in unclear[:NAMED]]
    if len(unclear) == 1:
        return [f"{unclear[0].name} cannot be told apart from the baseline {spans[0]}"]
    named = [f"{arm.name} {span}" for arm, span in zip(unclear, spans, strict=False)]
    named += [f"{len(unclear) - NAMED} more"] if len(unclear) > NAMED else []
    return [f"{listed(named)} cannot be told apart from the baseline"] if unclear else []


def _single(single: Sequence[Arm]) -> list[str]:
    """Those with one seed, which says nothing about the noise."""
    named = [f"{arm.name} is {_lower(arm)}" for arm in single[:NAMED]]
    named += [f"{len(single) - NAMED} more were measured"] if len(single) > NAMED else []
    return [f"{listed(named)} in one seed: no interval, so noise cannot be told from effect"] if single else []


def _lower(arm: Arm) -> str:
    gap = arm.difference.mean
    return f"{value(abs(gap))} {'lower' if gap < 0 else 'higher'}" if gap else "equal"


def _footing(measured: Sequence[Arm]) -> str:
    """What the intervals rest on."""
    if not measured:
        return ""
    numbers = sorted({arm.difference.n for arm in measured})
    seeds = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    each = ", each on its own: no correction for comparing several" if len(measured) > 1 else ""
    return f" 95 % interval{'s' if len(measured) > 1 else ''} over {seeds} paired seeds{each}."
