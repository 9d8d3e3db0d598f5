"""The verdicts as rows for MLflow, so that its own table answers the question."""

import math
from collections.abc import Iterator

from labkit.report.arms import Arm
from labkit.report.comparison import Comparison
from labkit.report.costs import training_seconds
from labkit.report.formats import interval, listed, signed
from labkit.report.words import shown
from labkit.tracking.mlflow import VERDICTS, Board, Row
from labkit.tracking.mlflow.colors import group_color, groups

COLUMNS = ("params.verdict", "params.interval", "params.confounds", "metrics.delta", "metrics.seeds")

DIGITS = 6
"""Of a figure: the UI cuts longer ones, and no report tells more."""


def board(comparison: Comparison, files: tuple[str, ...]) -> Board:
    """A row an arm, the baseline first; empty of arms without a result."""
    names = [arm.name for arm in comparison.declared]
    tag, values = groups(names)
    colors = {name: group_color(tag, value) for name, value in zip(names, values, strict=True)}
    ended = [arm for arm in comparison.arms if arm.finals or arm.diverged]
    rows = [_row(comparison, arm, colors[arm.name]) for arm in ended]
    note = f"{comparison.answer}\n\n{comparison.markdown()}"
    return Board(f"{comparison.title}{VERDICTS}", note, [*COLUMNS, f"metrics.{comparison.metric}"], rows, files)


def _row(comparison: Comparison, arm: Arm, color: str) -> Row:
    """In the colour that the arm's curves have; called by its verdict, in a word."""
    word = arm.verdict.word.upper() if arm.verdict.word in ("win", "loss", "tie") else arm.verdict.word
    name = f"{arm.title}*" if arm.is_baseline else f"{arm.title}: {'no verdict' if word == 'none' else word}"
    at = max((run.ended for run in (*arm.done, *arm.diverged) if math.isfinite(run.ended)), default=0.0)
    note = f"{comparison.question}\n\n**{_verdict(arm)}** {comparison.answer}"
    tags = {"variant": arm.name, "verdict": arm.verdict.word, "labkit.edition": comparison.title}
    tags |= {"fingerprint": arm.fingerprint, "labkit.hash": comparison.hash, "mlflow.runColor": color}
    words, figures = (
        dict(_words(comparison, arm)),
        {key: float(f"{x:.{DIGITS}g}") for key, x in _figures(comparison, arm)},
    )
    return Row(arm.name, name, at, words, figures, ("variant", arm.name), tags, note)


def _verdict(arm: Arm) -> str:
    return "baseline" if arm.is_baseline else shown(arm.verdict)


def _words(comparison: Comparison, arm: Arm) -> Iterator[tuple[str, str]]:
    """What is text: the verdict, what it is of, and under which conditions."""
    gap, analysis = arm.difference, comparison.analysis
    yield "variant", arm.name
    yield "verdict", _verdict(arm)
    yield "metric", comparison.metric
    if gap.has_interval:
        yield "interval", f"{signed(gap.mean)} {interval(gap.low, gap.high)}"
    yield "changes", "; ".join(f"{path}: {was} → {now}" for path, (was, now) in arm.changes.items()) or "-"
    yield "look", f"{analysis.look} of {len(analysis.looks)}" if analysis.at_look else "not at a look"
    yield "matched", comparison.matched or comparison.match
    yield "confounds", dict(comparison.footing).get("confounds", "none")
    yield "data", listed(str(corpus) for corpus in comparison.facts("data").get("corpus", []))


def _figures(comparison: Comparison, arm: Arm) -> Iterator[tuple[str, float]]:
    """What is a number; the noise and the margin stand with every arm, so that a row is whole by itself."""
    gap, analysis = arm.difference, comparison.analysis
    yield comparison.metric, arm.mean
    yield "spread", arm.spread
    yield "seeds", float(len(arm.finals))
    yield from (("delta", gap.mean), ("delta_low", gap.low), ("delta_high", gap.high), ("delta_error", gap.error))
    if arm.second is not None:
        yield from (("delta_text_low", arm.second[0]), ("delta_text_high", arm.second[1]))
    yield from (("sigma", analysis.sigma), ("margin", analysis.metric_margin), ("resolves", analysis.resolves))
    yield from (("params", float(arm.params)), ("flops", arm.flops), ("tokens", float(arm.tokens)))
    yield from (("tokens_per_s", arm.tokens_per_s), ("training_s", training_seconds(arm)), ("epochs", arm.epochs))
    yield from (("bits_per_byte", arm.bits_per_byte), ("diverged", float(len(arm.diverged))))
