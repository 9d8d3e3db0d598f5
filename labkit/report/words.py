"""The answer in words: they follow from the numbers alone."""

from collections.abc import Sequence

from labkit.report.arms import Arm
from labkit.report.formats import interval, listed, plural, signed, value

NAMED = 3
"""How many further variants the answer names before it only counts."""


def answer(arms: Sequence[Arm], metric: str) -> str:
    """One sentence: the largest difference to the baseline, and whether its interval excludes zero."""
    baseline, *variants = arms
    compared = [arm for arm in variants if arm.difference.n]
    if not variants:
        return f"The baseline alone: {metric} {value(baseline.mean)} over {plural(len(baseline.finals), 'seed')}."
    if not compared:
        return "Nothing to compare yet: no variant has a seed that both it and the baseline have finished."
    largest = max(compared, key=lambda arm: abs(arm.difference.mean))
    others = [arm for arm in compared if arm is not largest]
    return f"{_subject(largest, len(variants), metric)}{_certainty(largest)}{_rest(largest, others)}."


def _subject(arm: Arm, variants: int, metric: str) -> str:
    what = "The largest difference" if variants > 1 else "The difference"
    return f"{what} to the baseline in {metric} is {signed(arm.difference.mean)}, of {arm.name}"


def _certainty(arm: Arm) -> str:
    gap = arm.difference
    if not gap.has_interval:
        return "; one seed: no interval, so noise cannot be told from effect"
    verb = "excludes" if gap.excludes_zero else "includes"
    return f", and its 95 % interval over {gap.n} paired seeds, {interval(gap.low, gap.high)}, {verb} zero"


def _rest(largest: Arm, others: Sequence[Arm]) -> str:
    """What the other intervals say, so that a small clear difference is not hidden behind a large noisy one."""
    measured = [arm for arm in others if arm.difference.has_interval]
    clear = [arm.name for arm in measured if arm.difference.excludes_zero]
    if not measured:
        return ""
    if not clear:
        return "; no other interval does" if largest.difference.excludes_zero else "; every other includes zero too"
    who = listed(clear) if len(clear) <= NAMED else plural(len(clear), "other variant")
    subject, does, excludes = _NUMBERS[len(clear) > 1]
    return f"; {subject} of {who} {f'{does} too' if largest.difference.excludes_zero else f'{excludes} zero'}"


_NUMBERS = (("the interval", "does", "excludes"), ("the intervals", "do", "exclude"))
