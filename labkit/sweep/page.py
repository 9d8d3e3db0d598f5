"""The report of a sweep: one self-contained page beside its runs, in the style of an experiment's."""

import shlex
from collections.abc import Iterator

from optuna.trial import FrozenTrial

from labkit.report.formats import NOTHING, duration, plural
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
from labkit.search.study import state_of
from labkit.spec import shown
from labkit.study.names import at, tails
from labkit.sweep import plots, views
from labkit.sweep.analysis import FEW, at_best, diverging, lost, narrow, reasons, saved, untold
from labkit.sweep.branch import Branch, short
from labkit.sweep.front import front
from labkit.sweep.story import Story, answer
from labkit.sweep.winners import EDGE, rows

METHOD = """
The value of a trial is measured on the whole validation split at its end. Importance is PED-ANOVA's: the share of a
choice in what tells the best tenth of the finished trials, or the best five, from all of them; its interval is the 90 %
one over bootstrap draws of these. A choice that the sampler settled early, or whose losers were pruned, has a small
share, however much hangs on it: what each choice comes to at its best tells more. The best of many trials is also the
luckiest: what it is worth is told by other seeds. A pruned trial was compared with the others at the same part of its
schedule, never before the stated minimum. A diverged trial has no value, and the sampler learns nothing from it."""

LUCK = f"""
What was tried in fewer than {FEW} trials is at its best where these happened to lie: it tells little of the value."""


def page(story: Story) -> str:
    sections = (_header, _answer, _best, _arms, _importance, _choices, _plots, _pruning, _lost, _trials, _facts)
    body = "\n".join(part for section in sections for part in section(story))
    title = f"{story.title}: {story.question}" if story.question else story.title
    return document(title, STYLE, f"{body}\n<footer>{text(METHOD)}</footer>")


def _header(story: Story) -> Iterator[str]:
    yield f'<header><p class="eyebrow"><b>{text(story.title)}</b>, a sweep</p>'
    yield f"<h1>{text(story.question or story.title)}</h1></header>"


def _answer(story: Story) -> Iterator[str]:
    states = [state_of(trial) for branch in story.branches for trial in branch.shown]
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
            [words(one.number), *map(number, story.first.told(one.values)), words(short(one.params), "changes")]
            for one in chosen
        ]
        yield f"<h2>The Pareto front</h2>{table(head, body)}"
    elif chosen:
        base, changes = story.first.arm.spec, story.first.changes(chosen[0])
        spec = base.patched(changes)
        body = [[words(path), words(shown(at(base, path))), words(shown(at(spec, path)))] for path in changes]
        if story.base:
            theirs, ours = (story.first.told(values)[0] for values in (story.base, chosen[0].values))
            body.append([words(story.keys[0]), words(theirs), words(ours)])
        yield f"<h2>The best beside the base</h2>{table([words('place'), words('base'), words('best')], body)}"


def _arms(story: Story) -> Iterator[str]:
    if story.first.alone:
        return
    headers, body = rows(story.branches, story.winners)
    yield "<h2>Each arm at its best</h2>"
    yield table(
        [words(head) for head in headers], [[named(i, row[0]), *map(words, row[1:])] for i, row in enumerate(body)]
    )
    yield f'<p class="faint">{prose(EDGE)}</p>'


def _importance(story: Story) -> Iterator[str]:
    for branch, found in zip(story.branches, story.importance, strict=True):
        title = f"<h2>What matters{f' in {text(branch.name)}' if branch.name else ''}</h2>"
        if few := untold(branch):
            yield f'{title}<p class="faint">{prose(few)}.</p>'
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
        yield f"{title}{table(head, body)}"


def _bar(share: float, low: float, high: float) -> Cell:
    """A bar with its interval, as wide as the share."""
    rect = f'<rect x="0" y="4" width="{200 * share:.1f}" height="8" fill="var(--hue-1)"/>'
    line = f'<path d="M{200 * low:.1f} 8H{200 * high:.1f}" stroke="var(--ink)" stroke-width="1.5"/>'
    return Cell(f'<svg width="200" height="16" viewBox="0 0 200 16" aria-hidden="true">{rect}{line}</svg>')


def _choices(story: Story) -> Iterator[str]:
    """Every value of what is compared, at the best that was found with it."""
    found = at_best(story.first, story.compared) if story.first.alone else []
    if found:
        key, names = story.keys[0], tails(story.first.space.every)
        head = [words("choice"), words("value"), words(f"best {key}", "right"), words("trials", "right"), words("with")]
        body = [
            [
                words(names[one.name]),
                words(shown(one.value)),
                number(story.first.told(one.best.values)[0]),
                number(one.told),
                words(short(one.best.params), "changes"),
            ]
            for one in found
        ]
        yield f"<h2>Each choice at its best</h2>{table(head, body)}"
        if any(one.trials < FEW for one in found):
            yield f'<p class="faint">{prose(LUCK)}</p>'


def _plots(story: Story) -> Iterator[str]:
    drawn = plots.panels(story.branches, story.groups)
    if drawn:
        yield f"<h2>The trials</h2>{legend([name for name, _ in story.groups])}{figures(drawn)}"
    own = [plot for branch in story.branches for plot in views.by_optuna(branch)]
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
            number(branch.told(one.trial.values)[0]),
            words(f"point {one.point} of {points}"),
            number(f"{100 * one.ahead:.0f} %"),
        ]
        for branch in story.branches
        for one in narrow(branch)
    ]
    yield table(head, body)


def _lost(story: Story) -> Iterator[str]:
    """Where trials diverged or failed, and why combinations were invalid."""
    for branch in story.branches:
        if where := diverging(branch):
            head = [words("choice"), words("diverged at"), words("came to a value at")]
            body = [[words(one.name), words(one.diverged), words(one.sound)] for one in where]
            yield f"<h2>Where it diverges{f' in {text(branch.name)}' if branch.name else ''}</h2>{table(head, body)}"
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
        yield f"<h2>What diverged or failed</h2>{table(head, body)}"
    why = reasons(story.branches)
    if why:
        body = [[words(reason, "changes"), number(str(count))] for reason, count in why.items()]
        yield f"<h2>Invalid combinations, at no cost</h2>{table([words('why'), words('times', 'right')], body)}"


def _trials(story: Story) -> Iterator[str]:
    head = [words("trial"), words("state"), *(words(key, "right") for key in story.keys), words("steps", "right")]
    body = [
        _trial(story, branch, trial)
        for branch in story.branches
        for trial in branch.shown
        if state_of(trial) != "invalid"
    ]
    yield f"<h2>All trials</h2>{table([*head, words('training', 'right'), words('choices')], body)}"


def _trial(story: Story, branch: Branch, trial: FrozenTrial) -> list[Cell]:
    run, done = trial.user_attrs.get("run", {}), state_of(trial) == "done"
    values = trial.values if done else [float("nan")] * len(story.keys)
    answered = " (from a run made before)" if run.get("answered_from") else ""
    return [
        words(branch.folder(trial.number)),
        _state(branch, trial),
        *map(number, branch.told(values)),
        number(f"{run.get('step', 0):,}" if run else NOTHING),
        number(duration(run.get("seconds", 0.0)) if run else NOTHING),
        words(short(trial.params) + answered, "changes"),
    ]


def _state(branch: Branch, trial: FrozenTrial) -> Cell:
    """What became of a trial; where it was pruned, which may be before the step that it got to."""
    cell, run = status(state_of(trial)), trial.user_attrs.get("run")
    if state_of(trial) != "pruned" or not run or not trial.intermediate_values:
        return cell
    step = round(max(trial.intermediate_values) * run["steps"] / branch.study.search.points)
    return Cell(f"{cell.html} at {step:,}")


def _facts(story: Story) -> Iterator[str]:
    commands = f"{story.command}\noptuna-dashboard {shlex.quote(story.storage)}"
    yield f'<h2>To reproduce</h2><div class="card"><pre>{text(commands)}</pre></div>'
    space = [(name, below.words) for name, below in story.first.space.every.items()]
    yield f'<div class="columns">{pairs("The space", space)}</div>'
