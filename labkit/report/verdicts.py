"""Verdicts: win, loss, tie or unresolved, from intervals alone. Lower is better, for all metrics are losses."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from labkit.report.statistics import Difference, Interval

Word = Literal["win", "loss", "tie", "unresolved", "none", "placebo"]

STEADY = 5
"""An unstable arm gets no verdict below so many seeds."""


UNCLEAR = "not clear over documents, which takes more text"
"""Why an arm whose interval over seeds excludes 0 still has no word."""

NEAR = "excludes 0 by less than the match is worth"
"""The same, of one that more seeds may move clear of it."""


@dataclass(frozen=True)
class Verdict:
    """What is said of an arm, and what more a reader has to hear with it."""

    word: Word
    negligible: bool = False
    """The whole interval lies within ± M."""
    unstable: bool = False
    data_limited: bool = False
    """The data was read more often than new data is worth."""
    unequal: tuple[str, ...] = ()
    """By how much budgets differ that nothing was matched on: "+33 % params"."""
    reason: str = ""
    """Why there is no verdict, or why what is unresolved is, where its interval excludes 0."""
    further: tuple[int, int] | None = None
    """How many more seeds would settle what is unresolved, the ends of an 80 % band; None where seeds alone do not."""


NO_VERDICT = Verdict("none")


@dataclass(frozen=True)
class Rules:
    """What the words of one look rest on."""

    margin: float
    """M, in the metric's unit."""
    last: bool
    """Only the last look may show a tie."""
    further: Callable[[Difference], tuple[int, int] | None]
    """How many more seeds would settle it."""


def judged(gap: Difference, rules: Rules, second: Interval | None = None, residual: float = 0.0) -> Verdict:
    """The word for a difference.

    Win and loss: the interval excludes 0 by more than `residual` (what an imperfect match is worth, in the metric's
    unit), and so does the `second` interval where there is one. Tie: it includes 0, and the 90 % interval lies within
    ± M. Everything else is unresolved.
    """
    unstable = gap.unstable
    if gap.n < 2 or math.isnan(gap.low):
        few = "one seed" if gap.n else "no pair of seeds"
        return Verdict("none", reason=few if gap.n < 2 else "the noise is not measured")
    if unstable and gap.n < STEADY:
        return Verdict("none", unstable=True, reason=f"unstable, and {gap.n} seeds are fewer than {STEADY}")
    side = _side((gap.low, gap.high), residual)
    if side and (second is None or _side(second, residual) == side):
        return Verdict("win" if side < 0 else "loss", _within((gap.low, gap.high), rules.margin), unstable)
    if not gap.excludes_zero and rules.last and _within(gap.inner, rules.margin):
        return Verdict("tie", unstable=unstable)
    if side:
        return Verdict("unresolved", unstable=unstable, reason=UNCLEAR)
    near = NEAR if gap.excludes_zero else ""
    return Verdict("unresolved", unstable=unstable, reason=near, further=rules.further(gap))


def _side(interval: Interval, residual: float) -> int:
    """-1 where the whole interval lies below 0 by more than the residual, 1 where above, else 0."""
    low, high = interval
    return -1 if high < -residual else 1 if low > residual else 0


def _within(interval: Interval, margin: float) -> bool:
    return -margin <= interval[0] and interval[1] <= margin
