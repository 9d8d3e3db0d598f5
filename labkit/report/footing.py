"""What stands over and under the table of verdicts: what they were measured with, and how far they reach."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labkit.report.analysis import Analysis
from labkit.report.arms import Arm
from labkit.report.formats import count, interval, listed, plural, value
from labkit.report.notes import Note


def header(baseline: Arm, analysis: Analysis, metric: str) -> str:
    """swiglu* 3.2140 · 5 seeds, look 1 of 1 · σ 0.0021, 16 dof · M ±0.006"""
    look = f", look {analysis.look} of {len(analysis.looks)}" if analysis.at_look else ""
    margin = f"M ±{analysis.margin:g}" + (f" nats, ±{value(analysis.metric_margin)}" if metric == "val/bpb" else "")
    return " · ".join(
        [
            f"{baseline.label or baseline.name}* {value(baseline.mean)}",
            f"{plural(analysis.seeds, 'seed')}{look}",
            f"σ {value(analysis.sigma)}, {analysis.dof} dof",
            margin,
        ]
    )


def footing(
    arms: Sequence[Arm],
    analysis: Analysis,
    metric: str,
    *,
    matched: str,
    notes: Sequence[Note],
    data: Mapping[str, Sequence[Any]],
) -> Iterator[tuple[str, str]]:
    """Name and text of each line."""
    yield from _second(arms, metric)
    if math.isfinite(analysis.resolves):
        yield "power", f"a difference of {value(analysis.resolves)} is shown with 80 % power"
    if math.isfinite(analysis.removed):
        yield "pairing", f"by seed removed {100 * analysis.removed:.0f} % of the variance"
    yield from _looks(analysis)
    yield "matched", matched
    yield "confounds", _confounds(notes)
    diverged = sum(len(arm.diverged) for arm in arms)
    yield "diverged", f"{diverged} of {plural(sum(arm.total for arm in arms), 'run')}"
    epochs = max((arm.epochs for arm in arms if arm.done), default=0.0)
    yield from [("epochs", f"{epochs:.2g}")] if epochs else []
    text = listed(str(corpus) for corpus in data.get("corpus", [])) or "this text"
    size = f"{count(arms[0].params)} params, {count(arms[0].tokens)} tokens"
    yield "scope", f"{size}, {text}: no claim beyond"


def _second(arms: Sequence[Arm], metric: str) -> Iterator[tuple[str, str]]:
    """The intervals over the text; where there is none, what the words then rest on."""
    measured = [arm for arm in arms if arm.second is not None]
    for arm in measured:
        yield "text", f"{arm.name}: Δ {metric} over documents {interval(*(arm.second or ()))}"
    if not measured and any(arm.verdict.word in ("win", "loss") for arm in arms):
        yield "text", "no interval over documents: the words rest on the one over seeds"


def _looks(analysis: Analysis) -> Iterator[tuple[str, str]]:
    """The looks to come and those taken."""
    if len(analysis.looks) > 1:
        kept = (
            "which together keep 95 %" if analysis.declared else "not declared: earlier words kept 95 % by themselves"
        )
        planned = f"at {listed(map(str, analysis.looks))} seeds, {kept}"
        said = [f"at {look['seeds']}: {_said(look['verdicts'])}" for look in analysis.ledger]
        yield "looks", "; ".join([planned, *said])
    if changed := {look["margin"] for look in analysis.ledger} - {analysis.margin}:
        yield "margin", f"M was {listed(f'{margin:g}' for margin in sorted(changed))} at an earlier look"


def _said(verdicts: Mapping[str, str]) -> str:
    return listed(f"{name} {word}" if word != "none" else f"{name} no verdict" for name, word in verdicts.items())


def _confounds(notes: Sequence[Note]) -> str:
    known = sum(note.kind in ("budget", "conditions", "data-limited") for note in notes)
    return f"{plural(known, 'note')} below" if known else "none"
