"""Drawing: a panel becomes an SVG element that follows the page's colours and fonts, the same bytes every time."""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from labkit.report.arms import Arm
from labkit.report.theme import GRID, MUTED, themed

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # imported where it draws: half a second that only the page needs
    from matplotlib.figure import Figure

WIDTH = 5.2
HEIGHT = 3.25
MARGINS = (0.52, 0.12, 0.34, 0.46)
"""Inches around the axes: left, right, top, bottom."""


@dataclass(frozen=True)
class Panel:
    """How a plot is drawn; `draw` returns whether the records had anything to draw."""

    name: str
    title: str
    caption: str
    draw: Callable[["Axes", Sequence[Arm]], bool]
    legend: bool = True
    """Whether its lines need the arms' names beside them."""
    height: float = HEIGHT
    margins: tuple[float, float, float, float] = MARGINS


@dataclass(frozen=True)
class Plot:
    """A drawing, with what to say about it."""

    name: str
    title: str
    caption: str
    svg: str
    figure: "Figure" = field(repr=False, compare=False)
    legend: bool = True


def drawn(panels: Sequence[Panel], arms: Sequence[Arm]) -> list[Plot]:
    """The panels that have something to show."""
    import matplotlib

    plots: list[Plot] = []
    with matplotlib.rc_context(LOOK), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the reader's fonts draw the text
        for panel in panels:
            # Ids differ between the drawings of a page, and never between two writes of one.
            matplotlib.rcParams["svg.hashsalt"] = panel.name
            plots.extend(_plot(panel, arms))
    return plots


def level_names(axes: "Axes", up: str, across: str) -> None:
    """Axis names that read level: the vertical one's stands above its numbers."""
    axes.set_title(up, loc="left", x=-0.085, color=MUTED)
    axes.set_xlabel(across, color=MUTED)


def _plot(panel: Panel, arms: Sequence[Arm]) -> list[Plot]:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, panel.height))
    left, right, top, bottom = panel.margins
    width, height = 1 - (left + right) / WIDTH, 1 - (top + bottom) / panel.height
    if not panel.draw(figure.add_axes((left / WIDTH, bottom / panel.height, width, height)), arms):
        return []
    file = io.StringIO()
    FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = _inline(file.getvalue(), panel.title)
    return [Plot(panel.name, panel.title, panel.caption, svg, figure, panel.legend)]


def _inline(svg: str, title: str) -> str:
    """The drawing as an element of the page: no prologue, no size of its own, no ids that other drawings have too."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    opening = rf'<svg viewBox="\1" role="img" aria-label="{title}">'
    return themed(re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', opening, svg, count=1))


LOOK: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 8.5,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.5,
    "axes.titlepad": 6,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.facecolor": "none",
    "axes.formatter.useoffset": False,
    "figure.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "ytick.major.size": 0,
    "xtick.major.size": 3,
}
