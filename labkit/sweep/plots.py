"""The trials drawn: each number against the loss, the front, and the curves of what was pruned."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from optuna.trial import FrozenTrial

from labkit.report.drawing import Panel, Plot, drawn, level_names
from labkit.report.formats import engineering
from labkit.report.theme import MUTED, stroke
from labkit.search.ranges import LogUniform, Range
from labkit.search.study import state_of
from labkit.sweep.branch import Branch
from labkit.sweep.front import front
from labkit.sweep.numbered import numbered
from labkit.sweep.ticks import logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOM = 0.75
"""The part of the trials, the best ones, whose values the vertical axis holds."""


SEEN = 0.9
"""The part of the pruned trials, the best ones, whose ends the frame holds."""


def panels(branches: Sequence[Branch], groups: Sequence[tuple[str, Sequence[FrozenTrial]]]) -> list[Plot]:
    """Every plot that the trials have values for; `groups` are told apart by their strokes."""
    first = branches[0]
    return [*drawn([*_numbers(first, groups), *_front(first), *_curves(branches)], ())]


def _numbers(branch: Branch, groups: Sequence[tuple[str, Sequence[FrozenTrial]]]) -> Iterator[Panel]:
    """A panel for each parameter that is a range of numbers."""
    for name, below in branch.space.every.items():
        if below.count is not None and below.count < 6:
            continue
        told = "Every finished trial; the line joins the best so far from either side. Worse ones run out of the frame."

        def draw(axes: "Axes", _: Any, name: str = name, below: Range = below) -> bool:
            return _scattered(axes, name, below, branch, groups)

        short = name.rpartition(".")[2]
        yield Panel(f"by-{re.sub(r'[^A-Za-z0-9]+', '-', name)}", f"{branch.objectives[0].key} by {short}", told, draw)


def _scattered(
    axes: "Axes", name: str, below: Range, branch: Branch, groups: Sequence[tuple[str, Sequence[FrozenTrial]]]
) -> bool:
    values: list[float] = []
    for index, (_, trials) in enumerate(groups):
        points = sorted((trial.params[name], trial.values[0]) for trial in trials if name in trial.params)
        if not points:
            continue
        look = stroke(index)
        x, y = zip(*points, strict=True)
        axes.plot(x, y, "o", color=look.light, markersize=3.2, zorder=3)
        inner = _envelope(points, branch.objectives[0].direction)
        axes.plot(*zip(*inner, strict=True), color=look.light, linewidth=1.2, zorder=2).pop().set_dashes(
            look.dashes or (None, None)
        )
        values += y
    if len(values) < 3:
        return False
    if isinstance(below, LogUniform):
        axes.set_xscale("log")
        logarithmic(axes.xaxis)
    _frame(axes, values, branch.objectives[0].direction)
    level_names(axes, branch.objectives[0].key, name)
    return True


def _envelope(points: Sequence[tuple[float, float]], direction: str) -> list[tuple[float, float]]:
    """From either end of the range towards the best: the points that are better than all before them."""
    sign = 1 if direction == "minimize" else -1
    at = min(range(len(points)), key=lambda index: sign * points[index][1])
    kept = [points[at]]
    for side in (points[:at], points[:at:-1]):
        best = float("inf")
        for point in side:
            if sign * point[1] < best:
                best = sign * point[1]
                kept.append(point)
    return sorted(kept)


def _frame(axes: "Axes", values: Sequence[float], direction: str, all_of: Sequence[float] = ()) -> None:
    """Limits that hold the better values, and all of some."""
    ordered = sorted(values, reverse=direction == "maximize")
    kept = [*ordered[: max(3, round(ROOM * len(ordered)))], *all_of]
    low, high = min(kept), max(kept)
    room = 0.08 * (high - low) or 0.01
    axes.set_ylim(low - room, high + room)


def _front(branch: Branch) -> Iterator[Panel]:
    if len(branch.objectives) < 2:
        return

    def draw(axes: "Axes", _: Any) -> bool:
        done, best = branch.ranked, front(branch)
        if not done:
            return False
        axes.plot([t.values[1] for t in done], [t.values[0] for t in done], "o", color=MUTED, markersize=3, zorder=2)
        line = sorted((trial.values[1], trial.values[0]) for trial in best)
        axes.plot(*zip(*line, strict=True), "o-", color=stroke(1).light, markersize=4, linewidth=1.4, zorder=3)
        _frame(axes, [t.values[0] for t in done], branch.objectives[0].direction, [trial.values[0] for trial in best])
        for axis in (axes.xaxis, axes.yaxis):
            if max(axis.get_view_interval()) >= 1000:
                axis.set_major_formatter(lambda x, _: engineering(x))
        numbered(axes, {str(trial.number): (trial.values[1], trial.values[0]) for trial in best})
        level_names(axes, branch.objectives[0].key, branch.objectives[1].key)
        return True

    told = "Every finished trial; those that no other beats in both are joined, with their numbers."
    told += " Worse ones run out of the frame."
    yield Panel("front", "The Pareto front", told, draw)


def _curves(branches: Sequence[Branch]) -> Iterator[Panel]:
    trials = [trial for branch in branches for trial in branch.shown if trial.intermediate_values]
    if not any(state_of(trial) == "pruned" for trial in trials):
        return

    def draw(axes: "Axes", _: Any) -> bool:
        best = [trial for branch in branches for trial in branch.ranked[:1]]
        pruned = [trial for trial in trials if state_of(trial) == "pruned"]
        for trial in trials:
            _curve(axes, trial, trial in pruned, trial in best)
        ends = sorted(_end(trial)[1] for trial in pruned)
        _frame(axes, [_end(trial)[1] for trial in trials], "minimize", ends[: round(SEEN * len(ends))])
        axes.locator_params(axis="x", integer=True)
        level_names(axes, branches[0].objectives[0].key, "evaluation point")
        return True

    told = "A cross: by its value there the trial was pruned. The thick line is the best one's."
    yield Panel("curves", "What was pruned", told, draw)


def _curve(axes: "Axes", trial: FrozenTrial, pruned: bool, best: bool) -> None:
    x, y = zip(*sorted(trial.intermediate_values.items()), strict=True)
    if best:
        axes.plot(x, y, color=stroke(1).light, linewidth=2.0, zorder=5)
    else:
        axes.plot(x, y, color=MUTED, linewidth=1.0, alpha=0.3, zorder=2)
    if pruned:
        axes.plot(*_end(trial), "x", color=stroke(2).light, markersize=4, markeredgewidth=1.1, zorder=4)


def _end(trial: FrozenTrial) -> tuple[int, float]:
    """The last evaluation point of a trial, and its value there."""
    return max(trial.intermediate_values.items())
