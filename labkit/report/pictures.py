"""The drawings as files of their own, for slides and papers: each with its title and the arms' names, on white."""

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from labkit.report.arms import Arm
from labkit.report.drawing import LOOK, Plot
from labkit.report.theme import GROUND, INK, stroke

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 200
TITLE, LINE = 0.32, 0.19
"""Inches that the title takes, and a line of names."""
COLUMNS = 3
LONGEST = 30
"""Characters of a name."""


def pictures(plots: Sequence[Plot], arms: Sequence[Arm]) -> Iterator[tuple[str, bytes]]:
    """File name and content, SVG and PNG of each; the same bytes for the same records."""
    import matplotlib

    with matplotlib.rc_context({**LOOK, "figure.facecolor": GROUND}):
        for plot in plots:
            matplotlib.rcParams["svg.hashsalt"] = plot.name
            _complete(plot, arms)
            yield f"{plot.name}.svg", _svg(plot.figure)
            yield f"{plot.name}.png", _png(plot.figure)


def _complete(plot: Plot, arms: Sequence[Arm]) -> None:
    """Make room above for the title, and below for whose line is whose."""
    figure, rows = plot.figure, -(-len(arms) // COLUMNS) if plot.legend else 0
    width, height = figure.get_size_inches()
    below = rows * LINE
    whole = height + TITLE + below
    figure.set_size_inches(width, whole)
    figure.set_facecolor(GROUND)
    for axes in figure.axes:
        place = axes.get_position()
        axes.set_position((place.x0, (place.y0 * height + below) / whole, place.width, place.height * height / whole))
    figure.text(0.1 / width, 1 - 0.1 / whole, plot.title, va="top", weight="bold", size=10, color=INK)
    if rows:
        handles = [_handle(index) for index in range(len(arms))]
        names = [arm.name if len(arm.name) <= LONGEST else f"{arm.name[: LONGEST - 1]}…" for arm in arms]
        figure.legend(
            handles, names, loc="lower left", ncols=COLUMNS, frameon=False, borderaxespad=0.3, labelspacing=0.3
        )


def _handle(index: int) -> Any:
    from matplotlib.lines import Line2D

    look = stroke(index)
    line = Line2D([], [], color=look.light, linewidth=2)
    line.set_dashes(look.dashes or (None, None))
    return line


def _svg(figure: "Figure") -> bytes:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    file = io.StringIO()
    FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
    return file.getvalue().encode()


def _png(figure: "Figure") -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(DPI)
    file = io.BytesIO()
    FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
    return file.getvalue()
