"""The sweep's summary as rows for MLflow: what it found best, in full, with what matters and what it cost."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from optuna.trial import FrozenTrial

from labkit.search.study import state_of
from labkit.study.names import exact, tails
from labkit.sweep.analysis import saved
from labkit.sweep.branch import Branch, short
from labkit.sweep.front import front
from labkit.sweep.story import Story, answer, note
from labkit.tracking.mlflow import VERDICTS, Board, Row
from labkit.tracking.mlflow.facts import Setting
from labkit.tracking.mlflow.params import flat, text
from labkit.tracking.record import Run

DIGITS = 6
"""Of a figure: the UI cuts longer ones."""


def board(story: Story, files: tuple[str, ...]) -> Board:
    """A row for the best trial, for each on the Pareto front, or for each arm at its best; none before one ends."""
    setting = Setting.of(story.edition)
    chosen = [(branch, trial) for branch in story.branches for trial in _chosen(branch)]
    rows = [_row(story, branch, trial, setting) for branch, trial in chosen]
    names = dict.fromkeys(name for _, trial in chosen for name in tails(trial.params).values())
    columns = [*(f"params.{name}" for name in names), *(f"metrics.{key}" for key in story.keys)]
    return Board(f"{story.title}{VERDICTS}", note(story), [*columns, "metrics.delta", "metrics.trials"], rows, files)


def _chosen(branch: Branch) -> Sequence[FrozenTrial]:
    return front(branch) if branch.alone else branch.ranked[:1]


def _row(story: Story, branch: Branch, trial: FrozenTrial, setting: Setting) -> Row:
    """In the colour that the trial has among the others."""
    run, folder = Run(Path(trial.user_attrs["run"]["folder"])), branch.folder(trial.number)
    whole = not run.fault
    record = run.record() if whole else {}  # empty where another machine has the run
    best = branch.told(trial.values)[0]
    name = f"{folder if branch.alone else branch.arm.name}: {story.keys[0]} {best}"
    group = setting.group(run, record) if record else {"variant": folder}
    tags = {**group, "sweep": story.title, "study": branch.study.search.name, "trial": str(trial.number)}
    spec = (run.spec() if whole else {}) or branch.arm.spec.patched(branch.changes(trial)).as_json()
    words = {**dict(_words(branch, trial)), **{path: text(leaf) for path, leaf in flat(spec)}}
    figures = {key: float(f"{x:.{DIGITS}g}") for key, x in _figures(story, branch, trial)}
    told = f"{story.question}\n\n{answer(story)}".strip()
    return Row(folder, name, record.get("ended") or 0.0, words, figures, ("variant", folder), tags, told)


def _words(branch: Branch, trial: FrozenTrial) -> Iterator[tuple[str, str]]:
    """What was chosen, and who chose."""
    names, method = tails(trial.params), branch.study.search.method
    for name, chosen in trial.params.items():
        yield names[name], exact(chosen)
    yield from (("choices", short(trial.params)), ("sampler", method.sampler.label), ("pruner", method.pruner.label))


def _figures(story: Story, branch: Branch, trial: FrozenTrial) -> Iterator[tuple[str, float]]:
    """The objectives, the importance of every choice, and how many trials came to what."""
    yield from zip(story.keys, trial.values, strict=True)
    if story.base:
        yield "delta", trial.values[0] - story.base[0]
    found = story.importance[story.branches.index(branch)]
    names = tails(one.name for one in found)
    for one in found:
        yield f"importance/{names[one.name]}", one.share
        yield from ((f"importance/{names[one.name]}_low", one.low), (f"importance/{names[one.name]}_high", one.high))
    yield from ((f"trials_{state}", float(count)) for state, count in Counter(map(state_of, branch.shown)).items())
    yield "trials", float(branch.asked)
    yield "saved", saved([branch]).share
