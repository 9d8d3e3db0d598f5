"""Optuna's own plots of a study, slices and parallel coordinates, in the page's width, colours and names."""

import ast
import io
import math
import re
import textwrap
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from labkit.report.drawing import LOOK, Plot
from labkit.report.formats import chosen
from labkit.report.theme import GRID, GROUND, MUTED, stroke, themed
from labkit.search.quiet import unwarned
from labkit.search.ranges import Range
from labkit.spec import shown
from labkit.study.names import tails
from labkit.sweep.branch import Branch
from labkit.sweep.plots import ROOM
from labkit.sweep.ticks import logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

WIDTH = 10.8
"""Inches: so that letters are as large as in a drawing of half the page."""

LEFT, RIGHT, SCALE = 0.6, 0.75, 0.12
"""Inches of the vertical axis's numbers, of the colour bar with all that it has, and of its bar."""

ROW, TOP, BOTTOM = 1.75, 0.34, 0.5
"""Inches of a row of slices, above it, and below it."""

HEIGHT = 3.6
"""Inches of the parallel coordinates."""

COLUMNS = 4
"""Most slices beside each other."""

FEW = 8
"""Most values that all have a tick."""

NONE = "–"
"""Stands for a parameter that a trial has not."""

LETTER, LINE = 4.9, 10.0
"""Points of a letter's width, and of a line's height."""

FAINT = "#a9b1ba"
"""Of the trials that matter least, on light ground and on dark."""

BAR = "<colorbar>"
"""What Matplotlib calls the axes of a colour bar."""


def by_optuna(branch: Branch) -> list[Plot]:
    """Slices, and parallel coordinates of the trials; none where there are fewer than two."""
    if len(branch.ranked) < 2:
        return []
    slices = "The value over each parameter, later trials stronger: optuna.visualization.plot_slice."
    lines = "A line a trial, the better the stronger: optuna.visualization.plot_parallel_coordinate."
    if any(name not in trial.params for name in branch.space.every for trial in branch.ranked):
        lines += f" At {NONE} are those that have no such choice."
    found = (("slice", "Slices", slices), ("parallel_coordinate", "Parallel coordinates", lines))
    of = f" of {branch.name}" if branch.name else ""
    return [Plot(name, f"{title}{of}", told, _drawn(branch, name), wide=True) for name, title, told in found]


def _drawn(branch: Branch, name: str) -> str:
    import matplotlib

    with matplotlib.rc_context({**LOOK, "svg.hashsalt": f"{name} {branch.name}"}):
        file = io.StringIO()
        view(branch, name).savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return _inlined(file.getvalue(), name)


def view(branch: Branch, name: str) -> "Figure":
    """Optuna's plot of that name, as it stands on the page."""
    import matplotlib
    from optuna.visualization import matplotlib as plots

    with unwarned(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matplotlib.use("svg")
        from matplotlib import pyplot

        key = branch.objectives[0].key
        found = getattr(plots, f"plot_{name}")(
            branch.study.optuna, target=lambda trial: trial.values[0], target_name=key
        )
        figure = (found if not hasattr(found, "flat") else found.flat[0]).figure
        figure.suptitle("")
        (_slices if name == "slice" else _parallels)(figure, branch)
        _follow_the_page(figure)
        pyplot.close(figure)
    return figure


def _inlined(svg: str, title: str) -> str:
    """The drawing as an element of the page: no prologue, no size of its own, no ids that other drawings have too."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    opening = rf'<svg viewBox="\1" role="img" aria-label="{title}">'
    return themed(re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', opening, svg, count=1))


def _slices(figure: "Figure", branch: Branch) -> None:
    """Rows of slices in the order of the space, their names below them, the value's above the first of a row."""
    order = list(branch.space.every)
    axes = sorted((one for one in figure.axes if one.get_label() != BAR), key=lambda one: order.index(one.get_xlabel()))
    ranges, names, rows = branch.space.every, tails(order), math.ceil(len(axes) / COLUMNS)
    columns = math.ceil(len(axes) / rows)
    height, wide = rows * (ROW + TOP + BOTTOM), (WIDTH - LEFT - RIGHT) / columns
    figure.set_size_inches(WIDTH, height)
    for index, one in enumerate(axes):
        row, column = divmod(index, columns)
        _place(one, (LEFT + column * wide, height - (row + 1) * (ROW + TOP + BOTTOM) + BOTTOM, wide - 0.25, ROW))
        _across(one, ranges[one.get_xlabel()], 72 * (wide - 0.25))
        one.set_title(branch.objectives[0].key if column == 0 else "", loc="left", x=-0.085, pad=9)
        one.set(ylabel="", xlabel=names[one.get_xlabel()])
        one.tick_params(labelleft=column == 0)
        for dots in one.collections:
            dots.set(sizes=[16], linewidths=0.4)
    _scale(figure, (WIDTH - RIGHT, BOTTOM, SCALE, height - BOTTOM - TOP), "trial")


def _across(axes: "Axes", below: Range, points: float) -> None:
    """Ticks of a slice that is so many points wide."""
    from matplotlib.category import StrCategoryFormatter

    axis = axes.xaxis
    if axes.get_xscale() == "log":
        logarithmic(axis)
    elif isinstance(axis.get_major_formatter(), StrCategoryFormatter):
        labels = [_plain(label.get_text()) for label in axis.get_ticklabels()]
        axes.set_xticks(range(len(labels)), [_wrapped(label, points / len(labels)) for label in labels])
        axes.set_xlim(-0.5, len(labels) - 0.5)
    elif below.count is not None and below.count <= FEW:
        axes.set_xticks(below.values)
    else:
        axes.locator_params(axis="x", nbins=5)


def _parallels(figure: "Figure", branch: Branch) -> None:
    """One wide drawing, each parameter's values beside its axis, on ground of their own where lines cross them."""
    first, *beside = [one for one in figure.axes if one.get_label() != BAR]
    done = branch.ranked
    params = sorted({name for trial in done for name in trial.params})
    names = [branch.objectives[0].key, *(tails(branch.space.every)[name] for name in params)]
    apart = 72 * (WIDTH - LEFT - 2 * RIGHT) / len(beside)
    figure.set_size_inches(WIDTH, HEIGHT)
    for one in (first, *beside):
        _place(one, (LEFT, BOTTOM, WIDTH - LEFT - 2 * RIGHT, HEIGHT - BOTTOM - TOP))
        one.grid(visible=False)
        one.spines[["left", "right"]].set_visible(True)
    first.set_xticks(range(len(names)), [_wrapped(name, apart) for name in names], rotation=0)
    first.set(ylabel="", title="")
    for name, one in zip(params, beside, strict=True):
        some = all(name in trial.params for trial in done)
        _beside(one.yaxis, branch.space.every[name], apart, "None" if some else NONE)
    values = [trial.values[0] for trial in done]
    for lines in first.collections:
        lines.set(linewidth=0.9, alpha=0.75)
        lines.set_clim(_clear(values, branch.objectives[0].direction))
    _scale(figure, (WIDTH - RIGHT, BOTTOM, SCALE, HEIGHT - BOTTOM - TOP), names[0])


def _beside(axis: "Axis", below: Range, points: float, none: str) -> None:
    """Ticks of a parameter's axis, whose labels have so many points before the next; `none` is what None stands for."""
    axis.axes.tick_params(axis="y", length=3, pad=2)
    if axis.get_scale() == "log":
        logarithmic(axis)
    elif (given := [label.get_text() for label in axis.get_ticklabels()]) and not all(map(_is_number, given)):
        labels = [none if label == "None" else _plain(label) for label in given]
        axis.set_ticks(axis.get_ticklocs(), [_wrapped(label, points) for label in labels])
    elif below.count is not None and below.count <= FEW:
        axis.set_ticks(below.values)
    _thinned(axis)
    places, labels = axis.get_ticklocs(), axis.get_ticklabels()
    for place, label in zip(places, labels, strict=True):
        if "\n" in label.get_text():  # else it would reach beyond the axis, where the names are
            label.set_verticalalignment("bottom" if place == places[0] else "top" if place == places[-1] else "center")
        label.set_bbox({"facecolor": GROUND, "edgecolor": "none", "alpha": 0.8, "pad": 0.8})


def _thinned(axis: "Axis") -> None:
    """Leave out labels that would stand on the one before."""
    low, high = axis.get_transform().transform(axis.get_view_interval())
    least = LINE / (72 * (HEIGHT - BOTTOM - TOP))
    kept: list[tuple[float, str, float]] = []
    for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True):
        at = float((axis.get_transform().transform(place) - low) / ((high - low) or 1))
        if -0.01 <= at <= 1.01 and (not kept or at - kept[-1][2] >= least):
            kept.append((float(place), label.get_text(), at))
    axis.set_ticks([place for place, _, _ in kept], [text for _, text, _ in kept])


def _clear(values: Sequence[float], direction: str) -> tuple[float, float]:
    """The range of values that has all the shades: that of the better trials."""
    ordered = sorted(values, reverse=direction == "maximize")
    ends = (ordered[0], ordered[max(1, round(ROOM * len(ordered)) - 1)])
    return min(ends), max(ends)


def _plain(text: str) -> str:
    """A choice as the tables write it, a number to three digits."""
    with suppress(ValueError, SyntaxError):
        value = ast.literal_eval(text)
        return chosen(value) if type(value) in (int, float) else shown(value)
    return text


def _wrapped(text: str, points: float) -> str:
    """In lines that fit into so many points, broken after a bracket where that does."""
    room = max(4, int(points / LETTER - 1))
    return text if len(text) <= room else textwrap.fill(text.replace("(", "( "), room).replace("( ", "(")


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False


def _scale(figure: "Figure", inches: tuple[float, float, float, float], name: str) -> None:
    [bar] = [one for one in figure.axes if one.get_label() == BAR]
    _place(bar, inches)
    bar.set_box_aspect(None)
    bar.set_aspect("auto")
    bar.set_ylabel("")
    bar.set_title(name, loc="left")


def _place(axes: "Axes", inches: tuple[float, float, float, float]) -> None:
    """Put axes somewhere: from the left, from below, width, height."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    width, height = figure.get_size_inches()
    left, below, wide, high = inches
    axes.set_position((left / width, below / height, wide / width, high / height))


def _follow_the_page(figure: "Figure") -> None:
    """The page has the title, and its ground may be dark: no ground of its own, and colours that stand on both."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.text import Text

    fading = LinearSegmentedColormap.from_list("fading", [FAINT, stroke(2).light])
    figure.patch.set_facecolor("none")
    for words in figure.findobj(Text):
        words.set(color=MUTED, fontsize=LOOK["font.size"])
    for axes in figure.axes:
        axes.set_facecolor("none")
        axes.tick_params(which="both", colors=MUTED, labelsize=LOOK["font.size"])
        for spine in axes.spines.values():
            spine.set(color=MUTED, linewidth=0.8)
        for line in (*axes.get_xgridlines(), *axes.get_ygridlines()):
            line.set(color=GRID, linewidth=0.7)
        for drawn_in in axes.collections:
            if drawn_in.get_array() is not None:
                drawn_in.set_cmap(fading.reversed() if drawn_in.get_cmap().name.endswith("_r") else fading)
