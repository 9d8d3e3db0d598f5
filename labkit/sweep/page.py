"""The report of a sweep: one self-contained page beside its runs, in the style of an experiment's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from optuna.trial import FrozenTrial

from labkit.report.formats import NOTHING, duration, plural, signed, value
from labkit.report.markup import (
    Cell,
    document,
    figures,
    legend,
    named,
    number,
    pairs,
    prose,
    status,
    table,
    text,
    words,
)
from labkit.report.style import STYLE
from labkit.report.table import escaped
from labkit.search.space import Space
from labkit.search.study import state_of
from labkit.spec import shown
from labkit.study.names import at
from labkit.sweep import plots
from labkit.sweep.analysis import Importance, at_best, importances, lost, narrow, reasons, saved
from labkit.sweep.branch import Branch, short
from labkit.sweep.front import front
from labkit.sweep.winners import Winner, rows
from labkit.tracking.record import Edition, write_bytes

METHOD = """
The value of a trial is measured on the whole validation split at its end. Importance is PED-ANOVA's: the share of a
choice in what tells the better trials from all; its interval is the 90 % one over bootstrap draws of the trials. The
best of many trials is also the luckiest: what it is worth is told by other seeds. A pruned trial was compared with the
others at the same part of its schedule, never before the stated minimum. A diverged trial has no value."""

GROUPS = 7
"""Most values of a choice that are told apart by strokes."""


@dataclass(frozen=True)
class Story:
    """What the page is made from."""

    title: str
    edition: Edition
    branches: Sequence[Branch]
    winners: Sequence[Winner]
    compared: Space
    """The scientific part of a search's space; empty for a comparison."""
    question: str
    hypothesis: str
    command: str
    storage: str

    @property
    def first(self) -> Branch:
        return self.branches[0]

    @property
    def keys(self) -> list[str]:
        return [one.key for one in self.first.objectives]

    @cached_property
    def base(self) -> list[float]:
        """What the base came to, by objective; empty where it was not run."""
        found = [run.record() for run in self.edition.runs() if run.path.parent.name == "baseline"]
        done = [record for record in found if record["status"] == "done"]
        if not done or not self.first.alone:
            return []
        return [sum(one.of(record) for record in done) / len(done) for one in self.first.objectives]

    @cached_property
    def groups(self) -> list[tuple[str, Sequence[FrozenTrial]]]:
        """The finished trials by arm, or by the value of the most important choice."""
        if not self.first.alone:
            return [(branch.arm.name, branch.ranked) for branch in self.branches]
        ranked = [one.name for one in self.importance[0]]
        names = [name for name, below in self.compared.ranges.items() if 1 < (below.count or 0) <= GROUPS]
        names.sort(key=lambda name: ranked.index(name) if name in ranked else len(ranked))
        if not names:
            return [("trials", self.first.ranked)]
        name = names[0]
        tail = name.rpartition(".")[2]
        having = self.first.ranked
        return [
            (f"{tail}={shown(key)}", [trial for trial in having if trial.params.get(name) == key])
            for key in self.compared.ranges[name].values
        ]

    @cached_property
    def importance(self) -> list[list[Importance]]:
        """Of every branch."""
        return [importances(branch) for branch in self.branches]


def write(story: Story) -> Path:
    """Write report.html and report.md, which MLflow shows, into the edition's folder; the path of the page."""
    write_bytes(story.edition.path / "report.md", note(story).encode())
    write_bytes(story.edition.path / "report.html", page(story).encode())
    return story.edition.path / "report.html"


def page(story: Story) -> str:
    sections = (_header, _answer, _best, _arms, _importance, _choices, _plots, _pruning, _lost, _trials, _facts)
    body = "\n".join(part for section in sections for part in section(story))
    title = f"{story.title}: {story.question}" if story.question else story.title
    return document(title, STYLE, f"{body}\n<footer>{text(METHOD)}</footer>")


def answer(story: Story) -> str:
    """What came of it, in a sentence or two."""
    if not story.first.alone:
        found = story.winners
        told = [f"{one.name} {value(one.trial.values[0])} at {short(one.trial.params)}" for one in found]
        return f"At its best setting each: {'; '.join(told)}. The verdict is told by other seeds."
    best = story.first.best
    if best is None:
        return "No trial has come to its end yet."
    if len(story.keys) > 1:
        return f"{plural(len(front(story.first)), 'trial')} of {len(story.first.ranked)} lie on the Pareto front."
    told = f"Trial {best.number} of {len(story.first.known)} is the best: {story.keys[0]} {value(best.values[0])}"
    if story.base:
        told += f", {signed(best.values[0] - story.base[0])} to the base's {value(story.base[0])}"
    return f"{told}. It was chosen among many: confirm it on other seeds with --best."


def note(story: Story) -> str:
    """The answer, what matters, and the best spec, in Markdown."""
    told = {"Question": story.question, "Hypothesis": story.hypothesis, "Answer": answer(story)}
    said = [f"**{word}** {escaped(words)}" for word, words in told.items() if words]
    shares = ", ".join(f"{one.name} {one.share:.2f} [{one.low:.2f}, {one.high:.2f}]" for one in story.importance[0])
    matters = [f"**What matters** {escaped(shares)}"] if shares and story.first.alone else []
    best = story.first.best if story.first.alone else None
    chosen = [f"**Best** {escaped(short(best.params))}"] if best is not None else []
    return "\n\n".join([f"# {escaped(story.title)}", *said, *matters, *chosen, f"    {story.command}"]) + "\n"


def _header(story: Story) -> Iterator[str]:
    yield f'<header><p class="eyebrow"><b>{text(story.title)}</b>, a sweep</p>'
    yield f"<h1>{text(story.question or story.title)}</h1></header>"


def _answer(story: Story) -> Iterator[str]:
    states = [state_of(trial) for branch in story.branches for trial in branch.known]
    tally = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    method = story.first.study.search.method
    facts = [
        f"{plural(len(states), 'trial')}: {tally}",
        f"sampler {method.sampler.label}, pruner {method.pruner.label}, seed {method.seed}",
        f"study {', '.join(branch.study.search.name for branch in story.branches)}",
    ]
    items = "".join(f"<li>{text(fact)}</li>" for fact in facts)
    said = f'<p class="hypothesis">Hypothesis: {text(story.hypothesis)}</p>' if story.hypothesis else ""
    yield f'<section class="card answer">{said}<p>{prose(answer(story))}</p><ul>{items}</ul></section>'


def _best(story: Story) -> Iterator[str]:
    """The best spec beside the base, or the front."""
    chosen = front(story.first) if story.first.alone else []
    if len(story.keys) > 1 and chosen:
        head = [words("trial"), *(words(key, "right") for key in story.keys), words("choices")]
        body = [
            [words(one.number), *(number(value(v)) for v in one.values), words(short(one.params), "changes")]
            for one in chosen
        ]
        yield f"<h2>The Pareto front</h2>{table(head, body)}"
    elif chosen:
        base, changes = story.first.arm.spec, story.first.changes(chosen[0])
        spec = base.patched(changes)
        body = [[words(path), words(shown(at(base, path))), words(shown(at(spec, path)))] for path in changes]
        if story.base:
            body.append([words(story.keys[0]), words(value(story.base[0])), words(value(chosen[0].values[0]))])
        yield f"<h2>The best beside the base</h2>{table([words('place'), words('base'), words('best')], body)}"


def _arms(story: Story) -> Iterator[str]:
    if story.first.alone:
        return
    headers, body = rows(story.branches, story.winners)
    yield "<h2>Each arm at its best</h2>"
    yield table(
        [words(head) for head in headers], [[named(i, row[0]), *map(words, row[1:])] for i, row in enumerate(body)]
    )


def _importance(story: Story) -> Iterator[str]:
    for branch, found in zip(story.branches, story.importance, strict=True):
        if not found:
            continue
        head = [words("choice"), words("share", "right"), words("90 % interval", "right"), words("")]
        body = [
            [
                words(one.name),
                number(f"{one.share:.2f}"),
                number(f"[{one.low:.2f}, {one.high:.2f}]"),
                _bar(one.share, one.low, one.high),
            ]
            for one in found
        ]
        yield f"<h2>What matters{f' in {text(branch.name)}' if branch.name else ''}</h2>{table(head, body)}"


def _bar(share: float, low: float, high: float) -> Cell:
    """A bar with its interval, as wide as the share."""
    rect = f'<rect x="0" y="4" width="{200 * share:.1f}" height="8" fill="var(--hue-1)"/>'
    line = f'<path d="M{200 * low:.1f} 8H{200 * high:.1f}" stroke="var(--ink)" stroke-width="1.5"/>'
    return Cell(f'<svg width="200" height="16" viewBox="0 0 200 16" aria-hidden="true">{rect}{line}</svg>')


def _choices(story: Story) -> Iterator[str]:
    """Every value of what is compared, at the best that was found with it."""
    found = at_best(story.first, story.compared) if story.first.alone else []
    if found:
        key = story.keys[0]
        head = [words("choice"), words("value"), words(f"best {key}", "right"), words("trials", "right"), words("with")]
        body = [
            [
                words(one.name),
                words(shown(one.value)),
                number(value(one.best.values[0])),
                number(str(one.trials)),
                words(short(one.best.params), "changes"),
            ]
            for one in found
        ]
        yield f"<h2>Each choice at its best</h2>{table(head, body)}"


def _plots(story: Story) -> Iterator[str]:
    drawn = plots.panels(story.branches, story.groups)
    if drawn:
        yield f"<h2>The trials</h2>{legend([name for name, _ in story.groups])}{figures(drawn)}"
    own = [plot for branch in story.branches for plot in plots.by_optuna(branch)]
    if own:
        yield f"<h2>Optuna's views</h2>{figures(own)}"


def _pruning(story: Story) -> Iterator[str]:
    method = story.first.study.search.method
    if not method.pruner.looks:
        return
    total = saved(story.branches)
    yield "<h2>What pruning saved</h2>"
    told = f"{100 * total.share:.0f} % of {total.planned:,} steps were not trained, by {method.pruner.label}, "
    told += f"never before {100 * method.pruner.minimum:.0f} % of a run."
    yield f'<p class="faint">{prose(told)}</p>'
    head = [
        words("of the best"),
        words(story.keys[0], "right"),
        words("nearest to being pruned at"),
        words("others ahead there", "right"),
    ]
    points = story.first.study.search.points
    body = [
        [
            words(f"{branch.folder(one.trial.number)}"),
            number(value(one.trial.values[0])),
            words(f"point {one.point} of {points}"),
            number(f"{100 * one.ahead:.0f} %"),
        ]
        for branch in story.branches
        for one in narrow(branch)
    ]
    yield table(head, body)


def _lost(story: Story) -> Iterator[str]:
    """Where trials diverged or failed, and why combinations were invalid."""
    found = [(branch, trial, state) for branch in story.branches for trial, state in lost(branch) if state != "invalid"]
    if found:
        body = [
            [
                words(branch.folder(trial.number)),
                status(state),
                words(short(trial.params), "changes"),
                words(trial.user_attrs.get("why", "")),
            ]
            for branch, trial, state in found
        ]
        head = [words("trial"), words(""), words("choices"), words("why")]
        yield f"<h2>Where it diverged or failed</h2>{table(head, body)}"
    why = reasons(story.branches)
    if why:
        body = [[words(reason, "changes"), number(str(count))] for reason, count in why.items()]
        yield f"<h2>Invalid combinations, at no cost</h2>{table([words('why'), words('times', 'right')], body)}"


def _trials(story: Story) -> Iterator[str]:
    head = [words("trial"), words("state"), *(words(key, "right") for key in story.keys), words("steps", "right")]
    body = [
        _trial(story, branch, trial)
        for branch in story.branches
        for trial in branch.known
        if state_of(trial) != "invalid"
    ]
    yield f"<h2>All trials</h2>{table([*head, words('training', 'right'), words('choices')], body)}"


def _trial(story: Story, branch: Branch, trial: FrozenTrial) -> list[Cell]:
    run, done = trial.user_attrs.get("run", {}), state_of(trial) == "done"
    values = trial.values if done else [float("nan")] * len(story.keys)
    answered = " (from a run made before)" if run.get("answered_from") else ""
    return [
        words(branch.folder(trial.number)),
        status(state_of(trial)),
        *(number(value(one)) for one in values),
        number(f"{run.get('step', 0):,}" if run else NOTHING),
        number(duration(run.get("seconds", 0.0)) if run else NOTHING),
        words(short(trial.params) + answered, "changes"),
    ]


def _facts(story: Story) -> Iterator[str]:
    commands = f"{story.command}\noptuna-dashboard {story.storage}"
    yield f'<h2>To reproduce</h2><div class="card"><pre>{text(commands)}</pre></div>'
    space = [(name, below.words) for name, below in story.first.space.every.items()]
    yield f'<div class="columns">{pairs("The space", space)}</div>'
