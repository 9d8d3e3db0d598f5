"""The report's page: one self-contained HTML document, light or dark, printable."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from labkit.report.arms import BITS, SPEED, Arm, Outcome
from labkit.report.comparison import Comparison
from labkit.report.costs import costs
from labkit.report.drawing import Drawing, Plot
from labkit.report.forest import forest
from labkit.report.formats import (
    NOTHING,
    count,
    duration,
    listed,
    percent,
    plural,
    rate,
    scientific,
    since,
    size,
    span,
    value,
)
from labkit.report.markup import (
    Cell,
    code,
    document,
    figures,
    legend,
    link,
    named,
    number,
    pairs,
    prose,
    sentences,
    status,
    table,
    text,
    words,
)
from labkit.report.matched import moved
from labkit.report.plots import panels
from labkit.report.style import STYLE

METHOD = """
Δ is the mean over seeds of the variant minus the baseline of the same seed. One model, arm + seed, gives the noise σ,
pooled over all arms; the intervals are Dunnett's, many against one: all of them hold together with 95 %, all looks
included; text± is half the width of the 95 % interval over the evaluated documents, from 4,000 resamples of them, the
same for all arms and seeds, its ends moved out as their number and unequal lengths ask. Win and loss: both intervals
exclude 0. Tie: the first includes 0, and the 90 % interval of the arm alone lies within ± M. Anything else is
unresolved; the further seeds are an 80 % band, since σ itself is uncertain. An unstable arm (its spread over three
times the median) has the noise of its own pairs. A placebo is the baseline under other initial values: its interval is
its own 95 %, and only the count of all placebos on record is judged. The spread is the standard deviation over seeds.
Losses are in nats a token; bits per byte count the bytes of exactly the tokens scored. A diverged run has no final
value. The tokens/s and the training time of a run leave out its evaluations, checkpoints and start; started → ended is
wall time, with all of it and any interruption. A fingerprint leads to the run in MLflow, for a store on this machine
while `labkit ui` shows it."""

CLEAR = ("win", "loss")
"""Verdicts that stand out; what keeps another one from being given does not."""

VISIBLE = 0.0005
"""A ratio this near to one is shown as no difference."""


@dataclass(frozen=True)
class Drawings:
    """What the page shows in pictures."""

    differences: list[Drawing]
    curves: list[Drawing]
    costs: list[Drawing]

    @classmethod
    def of(cls, comparison: Comparison) -> Self:
        arms = comparison.arms
        return cls(forest(arms, comparison.metric), panels(arms), costs(arms))

    @property
    def all(self) -> list[Drawing]:
        return [*self.differences, *self.curves, *self.costs]


def page(comparison: Comparison, drawings: Drawings) -> str:
    """The whole page as HTML."""
    sections = (
        _header(comparison),
        _answer(comparison),
        _differences(comparison, drawings.differences),
        _notes(comparison),
        _curves(comparison, drawings.curves),
        _costs(comparison, drawings.costs),
        _arms(comparison),
        _runs(comparison),
        _facts(comparison),
    )
    body = "\n".join(part for section in sections for part in section)
    title = f"{comparison.title}: {comparison.question}" if comparison.question else comparison.title
    return document(title, STYLE, f"{body}\n<footer>{sentences(METHOD)}</footer>")


def _header(comparison: Comparison) -> Iterator[str]:
    edition = f", edition {text(comparison.edition)}" if comparison.edition != "main" else ""
    shown = f" · {link(comparison.charts, 'in MLflow')}" if comparison.charts else ""
    yield f'<header><p class="eyebrow"><b>{text(comparison.name)}</b>{edition}{shown}</p>'
    yield f"<h1>{text(comparison.question or comparison.title)}</h1>"
    yield "</header>"


def _answer(comparison: Comparison) -> Iterator[str]:
    baseline, total = comparison.baseline, sum(arm.total for arm in comparison.arms)
    facts = [
        f"{plural(len(comparison.variants), 'variant')}, {plural(len(comparison.seeds), 'seed')}",
        f"{sum(len(arm.done) for arm in comparison.arms)} of {plural(total, 'run')} done",
        f"baseline of {count(baseline.params)} parameters on {count(baseline.tokens)} tokens",
        f"matched on: {comparison.matched or comparison.match}",
        *([f"worth by {comparison.law}"] if comparison.law else []),
        *_when(comparison),
        *(str(corpus) for corpus in comparison.facts("data").get("corpus", [])),
    ]
    items = "".join(f"<li>{text(fact)}</li>" for fact in facts)
    said = f'<p class="hypothesis">Hypothesis: {text(comparison.hypothesis)}</p>' if comparison.hypothesis else ""
    yield f'<section class="card answer">{said}<p>{prose(comparison.answer)}</p><ul>{items}</ul></section>'


def _when(comparison: Comparison) -> Iterator[str]:
    """When the first run started and the last one ended; nothing before any did."""
    started = [run.started for run in comparison.outcomes if run.started]
    if started:
        ended = [run.ended for run in comparison.outcomes if run.started]
        last = max(ended, key=lambda end: (math.isnan(end), end))
        yield f"{since(min(started)) if math.isnan(last) else span(min(started), last)} UTC"


def _differences(comparison: Comparison, plots: Sequence[Plot]) -> Iterator[str]:
    headers, rows, alignments = comparison.rows()
    head = [words(header, "right" if side == "right" else "") for header, side in zip(headers, alignments, strict=True)]
    yield "<h2>Differences</h2>"
    yield f'<p class="faint">{prose(comparison.header)}</p>'
    yield table(head, [_arm(*row) for row in zip(range(len(rows)), comparison.arms, rows, strict=True)])
    yield figures(plots)
    yield f'<div class="columns">{pairs("What the verdicts rest on", comparison.grounds)}</div>'


def _arm(index: int, arm: Arm, row: list[str]) -> list[Cell]:
    """A row of the table; a difference whose interval excludes zero stands out."""
    name, difference, interval, sampled, verdict, *numbers, tally = row
    clear = "clear" if arm.difference.excludes_zero else ""
    return [
        named(index, name),
        number(difference, clear),
        number(interval, clear),
        number(sampled),
        Cell(_verdict(verdict), f"verdict {clear if arm.verdict.word in CLEAR else ''}".strip()),
        *(number(cell) for cell in numbers),
        words(tally, "tally"),
    ]


def _verdict(told: str) -> str:
    """What would settle it, or why there is none, on a line of its own."""
    return "–" if told == NOTHING else prose(told).replace(": ", ":<br>", 1)


def _notes(comparison: Comparison) -> Iterator[str]:
    if comparison.notes:
        lines = (
            f'<dt class="{note.kind}">{text(note.kind)}</dt><dd>{prose(note.text)}</dd>' for note in comparison.notes
        )
        yield f'<h2>What to know</h2><dl class="card notes">{"".join(lines)}</dl>'


def _curves(comparison: Comparison, plots: Sequence[Plot]) -> Iterator[str]:
    if plots:
        yield f"<h2>Curves</h2>{legend([arm.name for arm in comparison.arms])}{figures(plots)}"


def _costs(comparison: Comparison, plots: Sequence[Plot]) -> Iterator[str]:
    if plots:
        yield f"<h2>Quality against cost</h2>{legend([arm.name for arm in comparison.arms])}{figures(plots)}"


def _arms(comparison: Comparison) -> Iterator[str]:
    columns = ("params", "non-embedding", "training FLOPs", "tokens", "steps", "epochs")
    headers = [words("variant"), words("changes to the baseline"), *(words(name, "right") for name in columns)]
    yield "<h2>What differs</h2>"
    yield table(headers, [_sizes(index, arm, comparison.baseline) for index, arm in enumerate(comparison.arms)])


def _sizes(index: int, arm: Arm, baseline: Arm) -> list[Cell]:
    changes = "<br>".join(
        f"<code>{text(path)}</code> {text(before)} → {text(after)}" for path, (before, after) in arm.changes.items()
    )
    changes += f'<br><span class="faint">{prose(moved(arm.matched))}</span>' if moved(arm.matched) else ""
    return [
        named(index, arm.name),
        Cell(changes or '<span class="faint">the baseline</span>', "changes"),
        _beside(count(arm.params), arm.params / baseline.params),
        _beside(count(arm.non_embedding), arm.non_embedding / baseline.non_embedding),
        _beside(scientific(arm.flops), arm.flops / baseline.flops),
        _beside(count(arm.tokens), arm.tokens / baseline.tokens),
        number(f"{arm.steps:,}"),
        number(f"{arm.epochs:.2g}" if arm.done else NOTHING),
    ]


def _beside(shown: str, ratio: float) -> Cell:
    """A size, and by how much it differs from the baseline's where that can be seen."""
    differs = f'<br><span class="faint">{prose(percent(ratio))}</span>' if abs(ratio - 1) >= VISIBLE else ""
    return Cell(f"{text(shown)}{differs}", "right")


def _runs(comparison: Comparison) -> Iterator[str]:
    columns = (comparison.metric, "bits/byte", "tokens/s", "training", "started → ended, UTC")
    headers = [words("variant"), words("seed", "right"), words("status"), *(words(name, "right") for name in columns)]
    yield "<h2>Runs</h2>"
    body = [row for index, arm in enumerate(comparison.arms) for row in _runs_of(index, arm)]
    yield table([*headers, words("device"), words("fingerprint")], body)


def _runs_of(index: int, arm: Arm) -> Iterator[list[Cell]]:
    """A row a run; the arm's name stands beside all of its runs."""
    name = [named(index, arm.name, arm.total)]
    for cells in (*(_recorded(arm, run) for run in arm.outcomes), *(_missing(seed) for seed in arm.missing)):
        yield [*name, *cells]
        name = []


def _recorded(arm: Arm, run: Outcome) -> list[Cell]:
    return [
        number(str(run.seed)),
        _state(run),
        number(value(run.final(arm.metric))),
        number(value(run.final(BITS))),
        number(rate(run.final(SPEED))),
        number(duration(run.record.get("seconds") or math.nan)),
        Cell(text(span(run.started, run.ended)), "right"),
        words(", ".join(str(run.record[key]) for key in ("device", "mode", "precision") if run.record.get(key))),
        Cell(link(run.shown, code(run.record["fingerprint"]).html)),
    ]


def _missing(seed: int) -> list[Cell]:
    return [number(str(seed)), status("missing"), *[number(NOTHING)] * 5, words(""), words("")]


def _state(run: Outcome) -> Cell:
    at = run.record.get("diverged_at" if run.status == "diverged" else "step")
    where = "" if run.status == "done" else f' <span class="faint">at step {text(at)}</span>'
    return Cell(f"{status(run.status).html}{where}")


def _facts(comparison: Comparison) -> Iterator[str]:
    versions = [(name, _all(values)) for name, values in sorted(comparison.facts("versions").items())]
    traced = f'<p class="faint">Records {code(comparison.hash).html}: every run of this page with its figure.</p>'
    yield f'<h2>To reproduce</h2><div class="card"><pre>{text(comparison.command)}</pre>{traced}</div>'
    yield f'<div class="columns">{pairs("Data", _data(comparison.facts("data")))}{pairs("Versions", versions)}</div>'


def _data(data: dict[str, list[Any]]) -> Iterator[tuple[str, str]]:
    for name, key in (
        ("corpus", "corpus"),
        ("version", "corpus_version"),
        ("tokenizer", "tokenizer"),
        ("hash", "hash"),
    ):
        yield name, _all(data.get(key, []))
    for part, split in (("training", "train"), ("validation", "val")):
        yield f"{part} tokens", _all(count(n) for n in data.get(f"{split}_tokens", []))
        yield f"{part} text", _all(size(n) for n in data.get(f"{split}_bytes", []))


def _all(values: Iterable[Any]) -> str:
    return listed(str(found) for found in values)
