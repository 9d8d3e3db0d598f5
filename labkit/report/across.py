"""Arms of several experiments side by side: the same metric on the same data, or it is refused."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any

from labkit.report.analysis import Analysis, Plan, analysed
from labkit.report.apart import Apart, beyond, briefly, in_full
from labkit.report.arms import Arm
from labkit.report.comparison import Comparison
from labkit.report.footing import spread
from labkit.report.formats import count, interval, listed, rate, seeds, signed, value
from labkit.report.interaction import Interaction, interactions
from labkit.report.notes import Note, notes
from labkit.report.statistics import UNCOMPARED, mean
from labkit.report.statistics import spread as deviation
from labkit.report.table import SIMULTANEOUS, Alignment, Rows
from labkit.spec import Mistake

HASH = 8
"""Digits of a hash that are told."""

LONG = 24
"""Characters of a title that a table repeats in every row; longer ones go by a letter."""

SAME, ALSO = "baseline, same seeds", "also differs in"

NOT_DECLARED = "these arms were not declared against each other: intervals, and no verdict"


@dataclass(frozen=True)
class Across:
    """The arms of several experiments against the baseline of the first, which heads them."""

    titles: tuple[str, ...]
    names: tuple[str, ...]
    """What stands for each title before an arm's name."""
    metric: str
    arms: tuple[Arm, ...]
    """Named ``experiment:arm``; an arm that several experiments share stands once, one that never ran not at all."""
    analysis: Analysis
    shared: tuple[str, ...]
    """Which arms are one and the same run spec."""
    unrun: tuple[str, ...]
    """Arms of which no run is on record."""
    match: str
    """What the variants were matched on, each to the baseline of its own experiment."""
    matched: tuple[str, ...]
    """How near each experiment's came to it: ``theta and norms: params within 0.12 %, worth < .0006 nats``."""
    beyond: Mapping[str, Apart]
    """Arm -> what it differs in from the baseline beside its own change."""
    interactions: tuple[Interaction, ...]
    """Variants that stand on two baselines: how their effect changes from the one to the other."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """What differs between the arms beyond what is compared, and what is missing.

        Over which seeds a mean is taken, its row says: an arm's own seeds without a pair are in none.
        """
        return tuple(notes([replace(arm, difference=UNCOMPARED) for arm in self.arms], self.match, self.metric))

    @property
    def heading(self) -> str:
        """The titles, each after its letter where it has one: A theta@model.d_model=128+steps=400 beside B theta"""
        pairs = zip(self.names, self.titles, strict=True)
        return " beside ".join(title if name == title else f"{name} {title}" for name, title in pairs)

    @property
    def header(self) -> str:
        return f"{self.arms[0].name}* {value(self.arms[0].mean)} · {spread(self.analysis)} · {NOT_DECLARED}"

    def rows(self) -> Rows:
        """Headers, a row an arm, and each column's alignment.

        Mean and spread are over the seeds that the difference is taken over; where these are not all of the baseline's,
        its mean over the same stands beside, so that the two and Δ agree.
        """
        base = self.arms[0]
        uneven = any(0 < arm.difference.n < len(base.finals) for arm in self.arms[1:])
        cells = [self._row(arm, base, uneven) for arm in self.arms]
        heads = [head for head in cells[0] if any(row[head] for row in cells)]
        alignments: list[Alignment] = ["left" if head in ("arm", ALSO) else "right" for head in heads]
        return heads, [[row[head] for head in heads] for row in cells], alignments

    def _row(self, arm: Arm, base: Arm, uneven: bool) -> dict[str, str]:
        """Header -> cell; a column that is empty in all rows is left out."""
        gap = arm.difference
        pairs = sorted(arm.finals.keys() & base.finals.keys()) or sorted(arm.finals)
        own, theirs = ([one.finals[seed] for seed in pairs if seed in one.finals] for one in (arm, base))
        return {
            "arm": arm.title,
            self.metric: value(mean(own)),
            SAME: value(mean(theirs)) if uneven and gap.n else "",
            "spread": value(deviation(own)),
            "seeds": f"{len(own)}" if len(own) == len(arm.finals) else f"{len(own)} of {len(arm.finals)}",
            f"Δ {self.metric}": signed(gap.mean),
            SIMULTANEOUS: interval(gap.low, gap.high),
            ALSO: briefly(self.beyond.get(arm.name, {})),
            "params": count(arm.params),
            "tokens": count(arm.tokens),
            "tok/s": rate(arm.tokens_per_s),
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "version": 1,
            "experiments": list(self.titles),
            "metric": self.metric,
            "match": self.match,
            "matched": list(self.matched),
            "arms": [arm.as_json() | {"also_differs": self.beyond.get(arm.name, {})} for arm in self.arms],
            "interactions": [one.as_json() for one in self.interactions],
            "analysis": self.analysis.as_json(),
            "shared": list(self.shared),
            "never_run": list(self.unrun),
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
    joined, shared = _joined(comparisons, names)
    unrun = tuple(arm.name for arm in joined[1:] if not arm.outcomes)
    arms = [arm for arm in joined if arm.name not in unrun]
    most = max(len(comparison.seeds) for comparison in comparisons)
    plan = Plan(most, most, (), first.analysis.margin, (), {})
    judged, analysis = analysed(_unjudged(arms), first.metric, plan)
    compared = tuple(replace(arm, matched=own.matched) for arm, own in zip(judged, arms, strict=True))
    return Across(
        titles=titles,
        names=names,
        metric=first.metric,
        arms=compared,
        analysis=analysis,
        shared=tuple(shared),
        unrun=unrun,
        match=_match(comparisons, names),
        matched=tuple(_matched(comparisons, names)),
        beyond={arm.name: found for arm in compared[1:] if (found := beyond(arm, compared[0]))},
        interactions=interactions(comparisons, names),
    )


def _match(comparisons: Sequence[Comparison], names: Sequence[str]) -> str:
    """``params``, or by experiment where they are matched on different things: params in theta, none in norms"""
    found = [comparison.match for comparison in comparisons]
    if len({*found}) > 1:
        return listed(f"{match} in {name}" for match, name in zip(found, names, strict=True))
    alone = found[0] == "none" or len({comparison.baseline.fingerprint for comparison in comparisons}) == 1
    return found[0] if alone else f"{found[0]}, each to the baseline of its own experiment"


def _matched(comparisons: Sequence[Comparison], names: Sequence[str]) -> Iterator[str]:
    texts = [f"{one.matched}{f' by {one.law}' if one.law else ''}" for one in comparisons]
    for text in dict.fromkeys(filter(None, texts)):
        yield f"{listed(name for name, own in zip(names, texts, strict=True) if own == text)}: {text}"


def _unjudged(arms: Sequence[Arm]) -> list[Arm]:
    """A placebo of one experiment is an arm like any other here, and the first experiment's baseline the only one."""
    return [replace(arm, is_baseline=at == 0, placebo=False, matched=None) for at, arm in enumerate(arms)]


def _joined(comparisons: Sequence[Comparison], names: Sequence[str]) -> tuple[list[Arm], list[str]]:
    """Every arm once, by its fingerprint, with the experiment's name before its own."""
    arms: dict[tuple[str, bool], Arm] = {}
    shared: list[str] = []
    for comparison, before in zip(comparisons, names, strict=True):
        for arm in (*comparison.arms, *comparison.not_run):
            name, key = f"{before}:{arm.name}", (arm.fingerprint, arm.placebo)
            if key in arms:
                arms[key] = _with_runs(arms[key], arm)
                shared.append(f"{name} is {arms[key].name}")
            else:
                arms[key] = replace(arm, name=name, label=f"{before}:{arm.title}")
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


def told(found: Across) -> Iterator[tuple[str, str]]:
    """What stands under the table."""
    if found.shared:
        yield "the same", listed(found.shared)
    if found.unrun:
        yield "never ran", listed(found.unrun)
    yield "paired", _paired(found)
    if found.matched:
        yield "matched", "; ".join(found.matched)
    yield from _mixed(found.beyond)
    yield from ((note.kind, note.text) for note in found.notes)


def _mixed(found: Mapping[str, Apart]) -> Iterator[tuple[str, str]]:
    """A line for each set of further differences: their Δ is of these as well."""
    for text in dict.fromkeys(map(in_full, found.values())):
        who = listed(name for name, differences in found.items() if in_full(differences) == text)
        yield "also", f"{who}: Δ is also of {text}"


def _paired(found: Across) -> str:
    """Over which seeds each difference is taken: over seeds 0 and 1; a over seeds 0, 1 and 2, b over no seed"""
    base, arms = found.arms[0], found.arms[1:]
    common = {arm.name: tuple(sorted(base.finals.keys() & arm.finals.keys())) for arm in arms}
    alike = {pairs: [name for name, own in common.items() if own == pairs] for pairs in common.values()}
    if not any(alike):
        return f"none: no seed is in {base.name} and another arm"
    over = {pairs: f"over {seeds(pairs) if pairs else 'no seed'}" for pairs in alike}
    return next(iter(over.values())) if len(over) == 1 else "; ".join(f"{listed(alike[p])} {over[p]}" for p in over)
