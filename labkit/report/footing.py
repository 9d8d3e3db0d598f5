"""What stands over and under the table of verdicts: what they were measured with, and how far they reach."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from labkit.report.analysis import Analysis
from labkit.report.arms import LONG, Arm
from labkit.report.formats import count, freedom, listed, plural, value
from labkit.report.notes import Note
from labkit.report.resampling import Text


def header(baseline: Arm, analysis: Analysis, metric: str) -> str:
    """baseline swiglu 3.2140 · 5 seeds, look 1 of 2 · σ over seeds 0.0021 (16 degrees of freedom) · margin M ±0.006"""
    looks = len(analysis.looks)
    look = f", look {analysis.look} of {looks}" if analysis.at_look and looks > 1 else ""
    unit = f" nats, ±{value(analysis.metric_margin)}" if metric == "val/bpb" else ""
    return " · ".join(
        [
            f"{_named(baseline)} {value(baseline.mean)}",
            f"{_seeds(analysis)}{look}",
            spread(analysis),
            f"margin M ±{analysis.margin:g}{unit}",
        ]
    )


def _named(baseline: Arm) -> str:
    """baseline theta=10000; baseline where it is called just that, or by many choices"""
    label = baseline.label or baseline.name
    return "baseline" if label == "baseline" or len(label) > LONG else f"baseline {label}"


def spread(analysis: Analysis) -> str:
    """σ over seeds 0.0021 (16 degrees of freedom)"""
    return f"σ over seeds {value(analysis.sigma)} ({freedom(analysis.dof)})" if analysis.dof else "σ over seeds unknown"


def _seeds(analysis: Analysis) -> str:
    """2 of the file's 4 seeds; 4 seeds where that is all of them."""
    all_of_them = analysis.seeds >= analysis.in_file
    return plural(analysis.seeds, "seed") if all_of_them else f"{analysis.seeds} of the file's {analysis.in_file} seeds"


def footing(
    arms: Sequence[Arm],
    analysis: Analysis,
    *,
    matched: str,
    notes: Sequence[Note],
    data: Mapping[str, Sequence[Any]],
    others: Iterable[tuple[str, str]] = (),
) -> Iterator[tuple[str, str]]:
    """Name and text of each line."""
    yield from _text(analysis.text, arms)
    yield from others
    if math.isfinite(analysis.resolves):
        yield "power", f"a difference of {value(analysis.resolves)} is shown with 80 % power"
    if math.isfinite(analysis.removed):
        yield "pairing", _pairing(analysis.removed)
    yield from _looks(analysis)
    if any(arm.verdict.further for arm in arms):
        yield "further", "seeds are reckoned from the difference seen so far"
    yield "matched", matched
    if any(arm.tuned for arm in arms):
        yield "tuned", "; ".join(f"{arm.name} {arm.tuned}" for arm in arms if arm.tuned)
    yield "confounds", confounds(notes)
    diverged = sum(len(arm.diverged) for arm in arms)
    yield "diverged", f"{diverged} of {plural(sum(arm.total for arm in arms), 'run')}"
    epochs = max((arm.epochs for arm in arms if arm.done), default=0.0)
    yield from [("epochs", f"{epochs:.2g}")] if epochs else []
    text = listed(str(corpus) for corpus in data.get("corpus", [])) or "this text"
    size = f"{count(arms[0].params)} params, {count(arms[0].tokens)} tokens"
    yield "scope", f"{size}, {text}: no claim beyond"


def measured(arms: Sequence[Arm], analysis: Analysis) -> Iterator[tuple[str, str]]:
    """The noise that the seeds left, and what the placebos say of it."""
    if math.isfinite(analysis.sigma):
        pooled = f"σ {value(analysis.sigma)} of a run, pooled over {plural(len(arms), 'arm')}, {freedom(analysis.dof)}"
        unstable = [arm.name for arm in arms if arm.difference.unstable]
        yield "noise", f"{pooled}{f'; {listed(unstable)} unstable, with its own' if unstable else ''}"
    own = sum(arm.placebo for arm in arms)
    if own and analysis.placebos:
        whose = "" if own == analysis.placebos else "of all experiments here: "
        judged = "as many as expected" if analysis.expected else "more than expected: the noise is underestimated"
        yield "placebos", f"{whose}{analysis.outside} of {analysis.placebos} outside their own 95 %, {judged}"
    elif own:
        yield "placebos", "none judged yet"
    else:
        yield "placebos", "none in this experiment; placebo=True adds the baseline under other initial values"


def _text(text: Text, arms: Sequence[Arm]) -> Iterator[tuple[str, str]]:
    """What the intervals over documents rest on; where there is none, why, and what the words then rest on."""
    measured = any(arm.second for arm in arms)
    said: list[str] = []
    if measured:
        weak = f" (weak: their lengths make them worth {text.worth:.3g} equal ones)" if text.weak else ""
        said = [f"text± is half the 95 % interval over {plural(text.documents, 'document')}{weak}"]
    if text.reason:
        also = "none for some" if measured else "no interval over documents, so the words rest on the seeds alone"
        said = [*said, f"{also}: {text.reason}"]
    if said:
        yield "text", "; ".join(said)


def _pairing(removed: float) -> str:
    share = f"{100 * abs(removed):.0f} %"
    if share == "0 %":
        return "by seed changed nothing: the runs of a seed have nothing in common"
    return (
        f"by seed removed {share} of the variance"
        if removed > 0
        else f"by seed did not help: {share} more variance than unpaired"
    )


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


def confounds(notes: Sequence[Note]) -> str:
    """What differs between the arms beyond the declared change, in a few words; the notes have it in full."""
    known = list(dict.fromkeys(note.brief for note in notes if note.brief))
    return listed(known) or "none"
