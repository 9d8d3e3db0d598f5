"""The answer in words: they follow from the verdicts alone."""

from collections.abc import Callable, Sequence

from labkit.report.arms import Arm
from labkit.report.formats import interval, listed, plural, value
from labkit.report.power import MOST
from labkit.report.verdicts import Verdict

MANY = 100
"""More seeds than anybody adds: a band that begins above them is not told."""

NAMED = 8
"""How many variants of a kind the answer names before it only counts."""


def shown(verdict: Verdict) -> str:
    """WIN; LOSS, negligible; TIE, data-limited; unresolved: 4 to 11 more seeds; no verdict: one seed"""
    if verdict.word == "placebo":
        return f"({verdict.reason})"
    held = {"negligible": verdict.negligible, "unstable": verdict.unstable, "data-limited": verdict.data_limited}
    marks = "".join(f", {mark}" for mark in (*(mark for mark, is_so in held.items() if is_so), *verdict.unequal))
    if verdict.word == "none":
        return f"no verdict: {verdict.reason}"
    if verdict.word == "unresolved":
        return f"unresolved{marks}: {more(verdict)}"
    return f"{verdict.word.upper()}{marks}"


def more(verdict: Verdict) -> str:
    """4 to 11 more seeds; and why it is not settled where its interval excludes 0."""
    if verdict.reason and not verdict.further:
        return verdict.reason
    return f"{verdict.reason}{', ' if verdict.reason else ''}{_further(verdict.further)}"


def _further(band: tuple[int, int] | None) -> str:
    low, high = band or (MOST + 1, MOST + 1)
    if low > MANY:
        return f"over {MANY} more seeds"
    if low == high:
        return plural(low, "more seed")
    return f"{low} to {'over ' if high > MOST else ''}{min(high, MOST)} more seeds"


def answer(arms: Sequence[Arm], metric: str) -> str:
    """Which variants win against the baseline and which lose, by how much, the best first.

    Better is lower, for all metrics are losses: nats a token or bits a byte.
    """
    baseline, *others = arms
    variants = [arm for arm in others if not arm.placebo]
    compared = sorted((arm for arm in variants if arm.difference.n), key=lambda arm: arm.difference.mean)
    measured = [arm for arm in compared if arm.difference.has_interval]
    if not others and not baseline.finals:
        return "The baseline alone, and no seed of it has finished."
    if not others:
        return f"The baseline alone: {metric} {value(baseline.mean)} over {plural(len(baseline.finals), 'seed')}."
    if variants and not compared:
        return "Nothing to compare yet: no variant has a seed that both it and the baseline have finished."
    if not variants:
        return f"Placebos alone: {others[0].verdict.reason}."
    by_word = {word: [arm for arm in measured if arm.verdict.word == word] for word in ("win", "loss", "tie")}
    parts = [
        *_clear(by_word["win"], by_word["loss"]),
        *_several(by_word["tie"], "ties", "tie", _within),
        *_several(
            [arm for arm in measured if arm.verdict.word == "unresolved"], "is unresolved", "are unresolved", _open
        ),
        *_unjudged([arm for arm in measured if arm.verdict.word == "none"]),
        *_single([arm for arm in compared if arm not in measured]),
    ]
    return f"In {metric}, {'; '.join(parts)}.{_footing(measured)}"


def _clear(better: Sequence[Arm], worse: Sequence[Arm]) -> list[str]:
    """Those whose interval excludes zero, the better ones first."""
    said = [f"{arm.name} is better{_than(not at)} by {_by(arm)}" for at, arm in enumerate(better[:NAMED])]
    said += [f"{len(better) - NAMED} more are better"] if len(better) > NAMED else []
    said += [f"{arm.name} is worse{_than(not better and not at)} by {_by(arm)}" for at, arm in enumerate(worse[:NAMED])]
    return said + ([f"{len(worse) - NAMED} more are worse"] if len(worse) > NAMED else [])


def _than(first: bool) -> str:
    return " than the baseline" if first else ""


def _by(arm: Arm) -> str:
    """How much it is better or worse, as positive numbers: 0.0195 [0.0132, 0.0258]"""
    ends = sorted((abs(arm.difference.low), abs(arm.difference.high)))
    held = [mark for mark in ("negligible", "unstable") if getattr(arm.verdict, mark)]
    marks = "".join(f", {mark}" for mark in (*held, *arm.verdict.unequal))
    return f"{value(abs(arm.difference.mean))} [{', '.join(map(value, ends))}]{marks}"


def _several(arms: Sequence[Arm], one: str, many: str, why: Callable[[Arm], str]) -> list[str]:
    """a (why) and b (why) are unresolved"""
    named = [f"{arm.name} ({why(arm)})" for arm in arms[:NAMED]]
    named += [f"{len(arms) - NAMED} more"] if len(arms) > NAMED else []
    return [f"{listed(named)} {one if len(arms) == 1 else many}"] if arms else []


def _within(arm: Arm) -> str:
    return f"{interval(arm.difference.low, arm.difference.high)}"


def _open(arm: Arm) -> str:
    return f"{_within(arm)}, {more(arm.verdict)}"


def _unjudged(arms: Sequence[Arm]) -> list[str]:
    """a (interval) and b (interval) have no verdict (why); those of one reason together."""
    reasons = dict.fromkeys(arm.verdict.reason for arm in arms)
    alike = {reason: [arm for arm in arms if arm.verdict.reason == reason] for reason in reasons}
    one, many = "has no verdict", "have no verdict"
    return [f"{said} ({why})" for why, some in alike.items() for said in _several(some, one, many, _within)]


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
    kind = "simultaneous intervals" if len(measured) > 1 else "interval"
    return f" 95 % {kind} over {seeds} paired seeds."
