"""The trials drawn: each number against the loss, the front, and the curves of what was pruned."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from optuna.trial import FrozenTrial

from labkit.report.drawing import Panel, Plot, drawn, level_names
from labkit.report.theme import GRID, INK, MUTED, stroke
from labkit.search.ranges import LogUniform, Range
from labkit.search.study import state_of
from labkit.sweep.branch import Branch
from labkit.sweep.front import front
from labkit.sweep.ticks import logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOM = 0.75
"""The part of the trials, the best ones, whose values the vertical axis holds."""


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


def _frame(axes: "Axes", values: Sequence[float], direction: str) -> None:
    """Limits that hold the better values."""
    ordered = sorted(values, reverse=direction == "maximize")
    kept = ordered[: max(3, round(ROOM * len(ordered)))]
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
        for trial in best:
            place = (trial.values[1], trial.values[0])
            axes.annotate(str(trial.number), place, xytext=(4, 4), textcoords="offset points", color=INK)
        level_names(axes, branch.objectives[0].key, branch.objectives[1].key)
        return True

    told = "Every finished trial; those that no other beats in both are joined, with their numbers."
    yield Panel("front", "The Pareto front", told, draw)


def _curves(branches: Sequence[Branch]) -> Iterator[Panel]:
    trials = [trial for branch in branches for trial in branch.shown if trial.intermediate_values]
    if not any(state_of(trial) == "pruned" for trial in trials):
        return

    def draw(axes: "Axes", _: Any) -> bool:
        best = {trial.number for branch in branches for trial in branch.ranked[:1]}
        for trial in trials:
            points = sorted(trial.intermediate_values.items())
            pruned = state_of(trial) == "pruned"
            color = stroke(1).light if trial.number in best else MUTED if not pruned else GRID
            axes.plot(*zip(*points, strict=True), color=color, linewidth=1.2, zorder=3 if not pruned else 2)
            if pruned:
                axes.plot(*points[-1], "x", color=MUTED, markersize=4, zorder=3)
        _frame(axes, [value for trial in trials for value in trial.intermediate_values.values()], "minimize")
        axes.locator_params(axis="x", integer=True)
        level_names(axes, branches[0].objectives[0].key, "evaluation point")
        return True

    yield Panel("curves", "What was pruned", "A cross: the trial was ended there. The best one stands out.", draw)
