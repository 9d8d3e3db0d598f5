"""What the command line shows of a sweep: the best trials, the front, the arms at their best; and the same as JSON."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial

from labkit.report import formats
from labkit.report.arms import finite
from labkit.search.study import state_of
from labkit.study.counting import Counted
from labkit.sweep.analysis import reasons, untold
from labkit.sweep.branch import Branch, short, standing
from labkit.sweep.front import front
from labkit.sweep.runner import Searched, SweepRunner
from labkit.sweep.winners import EDGE, rows
from labkit.tracking.console import Console

VERSION = 1
SHOWN = 5
"""How many of the best trials are listed."""


def show_search(console: Console, searched: Searched, page: Path) -> None:
    """The best trials, what became of the others, and where to read on."""
    branch = searched.branches[0]
    keys = [one.key for one in branch.objectives]
    several = len(keys) > 1
    chosen = front(branch) if several else branch.ranked[:SHOWN]
    title = f"{searched.title}  {'the Pareto front' if several else 'the best trials'}"
    body = [[f"{trial.number}", *branch.told(trial.values), short(trial.params)] for trial in chosen]
    console.say()
    console.table(title, ["trial", *keys, "choices"], body, words=["choices"])
    if left := len(branch.ranked) - len(chosen):
        console.show(f"{left} more in the report, {'each beaten by one of these' if several else 'none as good'}")
    console.show(tally(searched.branches))
    for told in closing(searched):
        console.show(told)
    show_where(console, searched, page)


def closing(searched: Searched) -> Iterator[str]:
    """How the best trial stands to the base, whether trials are too few to say what matters, what was never tried."""
    branch, base = searched.branches[0], searched.base
    best = branch.best
    if best is not None and len(base) > 1:
        told = (f"{one.key} {value}" for one, value in zip(branch.objectives, branch.told(base), strict=True))
        yield f"the base: {', '.join(told)}"
    elif best is not None and base:
        key = branch.objectives[0].key
        yield f"trial {best.number}: {key} {branch.told(best.values)[0]}, {standing(branch, best, base)}"
    if few := untold(branch):
        yield few
    if searched.untried:
        said = f"{searched.untried:,} of {formats.plural(searched.combinations, 'scientific combination')}"
        yield f"{said} never tried; more --trials go on from here"


def show_tuned(console: Console, searched: Searched) -> None:
    """Every arm at its best setting."""
    headers, body = rows(searched.branches, searched.winners)
    console.say()
    console.table(f"{searched.title}  each arm at its best", headers, body, left=2, words=headers[-1:])
    console.show(EDGE)
    console.show(tally(searched.branches))


def show_where(console: Console, searched: Searched, page: Path) -> None:
    console.say()
    console.say(f"report  {page}")
    console.say(f"next    optuna-dashboard {shlex.quote(searched.storage)}", "")
    console.say("        labkit ui", "")


def tally(branches: Sequence[Branch]) -> str:
    """``24 trials: 18 done, 5 pruned, 1 diverged; 3 combinations were invalid and cost nothing``"""
    states = Counter(state_of(trial) for branch in branches for trial in branch.shown)
    invalid = states.pop("invalid", 0)
    told = ", ".join(f"{count} {state}" for state, count in states.items())
    why = next(iter(reasons(branches)), "")
    costs = f"; {formats.plural(invalid, 'combination')} invalid, at no cost ({why})" if invalid else ""
    return f"{formats.plural(states.total(), 'trial')}: {told}{costs}"


def search_as_json(searched: Searched, page: Path) -> dict[str, Any]:
    """Every trial of every branch, as plain JSON values."""
    return finite(
        {
            "version": VERSION,
            "title": searched.title,
            "storage": searched.storage,
            "report": str(page),
            "base": searched.base,
            "combinations": searched.combinations,
            "untried": searched.untried,
            "branches": [_branch_as_json(branch, searched) for branch in searched.branches],
        }
    )


def show_plan(console: Console, runner: SweepRunner) -> None:
    """A dry run: what is searched, and how."""
    for counted, search, trials in runner.searches()[:1]:
        body = [[name, below.words] for name, below in search.space.every.items()]
        console.table(runner.edition.title, ["parameter", "range"], body, left=2)
        size = search.space.size
        of = f" of {size:,} combinations" if size else ""
        console.show(f"{formats.plural(trials, 'trial')}{of} by {search.method.sampler.label}, study {search.name}")
        console.show(f"to train, at most: {formats.scientific(_flops(runner, counted, trials))} FLOPs")


def plan_as_json(runner: SweepRunner) -> dict[str, Any]:
    searches = [
        {"arm": counted.arm.name, "study": search.name, "trials": trials, "space": search.space.as_json()}
        for counted, search, trials in runner.searches()
    ]
    return {"version": VERSION, "title": runner.edition.title, "searches": searches}


def _flops(runner: SweepRunner, counted: Counted, trials: int) -> float:
    return counted.flops * trials * len(runner.seeds) * len(runner.searches())


def _branch_as_json(branch: Branch, searched: Searched) -> dict[str, Any]:
    best = branch.best
    edges = {name: why for one in searched.winners if one.branch is branch for name, why in one.edges.items()}
    return {
        "arm": branch.arm.name,
        "study": branch.study.search.name,
        "objectives": {one.key: one.direction for one in branch.objectives},
        "best": None if best is None else best.number,
        "edges": edges,
        "front": [trial.number for trial in front(branch)],
        "trials": [_trial_as_json(trial) for trial in branch.shown],
    }


def _trial_as_json(trial: FrozenTrial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "state": state_of(trial),
        "params": trial.params,
        "values": trial.values,
        "why": trial.user_attrs.get("why", ""),
        "run": trial.user_attrs.get("run", {}),
    }
