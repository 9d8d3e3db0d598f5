"""Arms of several experiments side by side: the same metric on the same data, or it is refused."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any

from labkit.report.analysis import Analysis, Plan, analysed
from labkit.report.arms import Arm
from labkit.report.comparison import Comparison
from labkit.report.footing import spread
from labkit.report.formats import count, interval, listed, rate, seeds, signed, value
from labkit.report.notes import Note, notes
from labkit.report.table import SIMULTANEOUS, Alignment, Rows
from labkit.spec import Mistake

HASH = 8
"""Digits of a hash that are told."""

LONG = 24
"""Characters of a title that a table repeats in every row; longer ones go by a letter."""

NOT_DECLARED = "these arms were not declared against each other: intervals, and no verdict"


@dataclass(frozen=True)
class Across:
    """The arms of several experiments against the baseline of the first, which heads them."""

    titles: tuple[str, ...]
    names: tuple[str, ...]
    """What stands for each title before an arm's name."""
    metric: str
    arms: tuple[Arm, ...]
    """Named ``experiment:arm``; an arm that several experiments share stands once."""
    analysis: Analysis
    shared: tuple[str, ...]
    """Which arms are one and the same run spec."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """What differs between the arms beyond what is compared, and what is missing."""
        return tuple(notes(self.arms, "none", self.metric))

    @property
    def heading(self) -> str:
        """The titles, each after its letter where it has one: A theta@model.d_model=128+steps=400 beside B theta"""
        pairs = zip(self.names, self.titles, strict=True)
        return " beside ".join(title if name == title else f"{name} {title}" for name, title in pairs)

    @property
    def header(self) -> str:
        return f"{self.arms[0].name}* {value(self.arms[0].mean)} · {spread(self.analysis)} · {NOT_DECLARED}"

    def rows(self) -> Rows:
        """Headers, a row an arm, and each column's alignment."""
        headers = ["arm", self.metric, "spread", "seeds", f"Δ {self.metric}", SIMULTANEOUS, "params", "tokens", "tok/s"]
        alignments: list[Alignment] = ["right"] * len(headers)
        return headers, [_row(arm) for arm in self.arms], ["left", *alignments[1:]]

    def as_json(self) -> dict[str, Any]:
        return {
            "version": 1,
            "experiments": list(self.titles),
            "metric": self.metric,
            "arms": [arm.as_json() for arm in self.arms],
            "analysis": self.analysis.as_json(),
            "shared": list(self.shared),
            "notes": [{"kind": note.kind, "text": note.text} for note in self.notes],
        }


def across(comparisons: Sequence[Comparison], *, brief: bool = False) -> Across:
    """The arms of two or more comparisons side by side, in `brief` without long titles before their names.

    Raises Mistake where metric or data differ.
    """
    first, *others = comparisons
    for other in others:
        _check(first, other)
    titles = tuple(comparison.title for comparison in comparisons)
    is_long = brief and len(titles) <= len(ascii_uppercase) and any(len(title) > LONG for title in titles)
    names = tuple(ascii_uppercase[: len(titles)]) if is_long else titles
    arms, shared = _joined(comparisons, names)
    most = max(len(comparison.seeds) for comparison in comparisons)
    plan = Plan(most, most, (), first.analysis.margin, (), {})
    compared, analysis = analysed(_unjudged(arms), first.metric, plan)
    return Across(titles, names, first.metric, compared, analysis, tuple(shared))


def _unjudged(arms: Sequence[Arm]) -> list[Arm]:
    """A placebo of one experiment is an arm like any other here, and the first experiment's baseline the only one."""
    return [replace(arm, is_baseline=at == 0, placebo=False, matched=None) for at, arm in enumerate(arms)]


def _joined(comparisons: Sequence[Comparison], names: Sequence[str]) -> tuple[list[Arm], list[str]]:
    """Every arm once, by its fingerprint, with the experiment's name before its own."""
    arms: dict[tuple[str, bool], Arm] = {}
    shared: list[str] = []
    for comparison, before in zip(comparisons, names, strict=True):
        for arm in comparison.arms:
            name, key = f"{before}:{arm.name}", (arm.fingerprint, arm.placebo)
            if key in arms:
                arms[key] = _with_runs(arms[key], arm)
                shared.append(f"{name} is {arms[key].name}")
            else:
                arms[key] = replace(arm, name=name, label=arm.label if arm.label != arm.name else name)
    return list(arms.values()), shared


def _with_runs(arm: Arm, same: Arm) -> Arm:
    """An arm with the seeds that only the other record of it has."""
    known = {run.seed for run in arm.outcomes}
    more = [run for run in same.outcomes if run.seed not in known]
    outcomes = sorted((*arm.outcomes, *more), key=lambda run: run.seed)
    return replace(arm, outcomes=tuple(outcomes), seeds=tuple(sorted({*arm.seeds, *same.seeds})))


def _check(first: Comparison, other: Comparison) -> None:
    """Raise Mistake unless two comparisons measure the same on the same data."""
    if first.metric != other.metric:
        told = f"{first.title} is about {first.metric}, {other.title} about {other.metric}"
        raise Mistake(f"{told}: only arms of one metric stand side by side")
    here, there = _data(first), _data(other)
    if here and there and here != there:
        told = f"{first.title} ({_named(first)}) and {other.title} ({_named(other)}) ran on different data"
        raise Mistake(f"{told}: their losses do not compare; run one of them on the data of the other")


def _data(comparison: Comparison) -> set[str]:
    return {run.record["data"]["hash"] for run in comparison.outcomes if run.record.get("data", {}).get("hash")}


def _named(comparison: Comparison) -> str:
    corpora = listed(str(corpus) for corpus in comparison.facts("data").get("corpus", []))
    return f"{corpora}, hash {listed(sorted(found[:HASH] for found in _data(comparison)))}"


def _row(arm: Arm) -> list[str]:
    gap = arm.difference
    return [
        arm.name,
        value(arm.mean),
        value(arm.spread),
        str(len(arm.finals)),
        signed(gap.mean),
        interval(gap.low, gap.high),
        count(arm.params),
        count(arm.tokens),
        rate(arm.tokens_per_s),
    ]


def told(found: Across) -> Iterator[tuple[str, str]]:
    """What stands under the table."""
    if found.shared:
        yield "the same", listed(found.shared)
    yield "paired", _paired(found)
    yield from ((note.kind, note.text) for note in found.notes)


def _paired(found: Across) -> str:
    """Over which seeds each difference is taken: over seeds 0 and 1; a over seeds 0, 1 and 2, b over no seed"""
    base, arms = found.arms[0], found.arms[1:]
    common = {arm.name: tuple(sorted(base.finals.keys() & arm.finals.keys())) for arm in arms}
    alike = {pairs: [name for name, own in common.items() if own == pairs] for pairs in common.values()}
    if not any(alike):
        return f"none: no seed is in {base.name} and another arm"
    over = {pairs: f"over {seeds(pairs) if pairs else 'no seed'}" for pairs in alike}
    return next(iter(over.values())) if len(over) == 1 else "; ".join(f"{listed(alike[p])} {over[p]}" for p in over)
