"""Drawing: a panel becomes an SVG element that follows the page's colours and fonts, the same bytes every time."""

import html
import io
import re
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from labkit.report.arms import Arm
from labkit.report.frame import TITLE, WIDTH, below, framed
from labkit.report.theme import GRID, GROUND, MUTED, themed

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # imported where it draws: half a second that only the page needs
    from matplotlib.figure import Figure

HEIGHT = 3.25
MARGINS = (0.52, 0.12, 0.34, 0.46)
"""Inches around the axes: left, right, top, bottom."""
LABEL = 0.28
"""Inches from the axes down to their name: matplotlib would measure the numbers between, twice a drawing."""
POINTS = 72
"""SVG's units in an inch."""

AXES, FRAME = "labkit-axes", "labkit-frame"
"""Ids of where the drawing begins and ends in its SVG."""


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
    """A drawing on a page, with what to say about it."""

    name: str
    title: str
    caption: str
    svg: str
    wide: bool = field(default=False, kw_only=True)
    """Whether it has the page's width."""


@dataclass(frozen=True)
class Drawing(Plot):
    """A plot that can be a file of its own as well: with its title and the arms' names, on white."""

    file: str
    """As SVG."""
    figure: "Figure" = field(repr=False, compare=False)


def drawn(panels: Sequence[Panel], arms: Sequence[Arm]) -> list[Drawing]:
    """The panels that have something to show."""
    import matplotlib

    plots: list[Drawing] = []
    with matplotlib.rc_context(LOOK), any_glyph():
        for panel in panels:
            # Ids differ between the drawings of a page, and never between two writes of one.
            matplotlib.rcParams["svg.hashsalt"] = panel.name
            plots.extend(_plot(panel, arms))
    return plots


@contextmanager
def any_glyph() -> Generator[None]:
    """No warning of signs that matplotlib's font lacks: in SVG the reader's fonts draw the text."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def level_names(axes: "Axes", up: str, across: str) -> None:
    """Axis names that read level: the vertical one's stands above its numbers."""
    axes.set_title(up, loc="left", x=-0.085, color=MUTED)
    axes.set_xlabel(across, color=MUTED)


def _plot(panel: Panel, arms: Sequence[Arm]) -> list[Drawing]:
    """Drawn once, whole; the page takes the part without the title and the names, which it shows in its own type."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    named = arms if panel.legend else ()
    left, right, top, bottom = panel.margins
    width, height = WIDTH - left - right, panel.height - top - bottom
    whole = TITLE + panel.height + below(named)
    figure = Figure(figsize=(WIDTH, whole))
    place = (left / WIDTH, (bottom + below(named)) / whole, width / WIDTH, height / whole)
    axes = figure.add_axes(place, gid=AXES)
    if not panel.draw(axes, arms):
        return []
    axes.xaxis.set_label_coords(0.5, -LABEL / height)
    axes.yaxis.set_label_coords(0, 0.5)
    framed(figure, panel.title, named, FRAME)
    file = io.StringIO()
    FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
    svg = _inline(file.getvalue(), panel)
    return [Drawing(panel.name, panel.title, panel.caption, svg, file.getvalue(), figure)]


def _inline(svg: str, panel: Panel) -> str:
    """The axes as an element of the page: no size of its own, no ids that other drawings have too."""
    start, end = (svg.index(f'<g id="{name}">') for name in (AXES, FRAME))
    clips = "".join(re.findall(r"<defs>.*?</defs>", svg[end:], flags=re.DOTALL))
    inner = re.sub(r'<!--.*?-->|(?<=<g) id="[^"]*"', "", svg[start:end] + clips, flags=re.DOTALL)
    box = f"0 {POINTS * TITLE:g} {POINTS * WIDTH:g} {POINTS * panel.height:g}"
    opening = f'<svg viewBox="{box}" role="img" aria-label="{html.escape(panel.title)}">'
    return themed(f"{opening}{inner}</svg>")


LOOK: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "text.hinting": "none",
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.5,
    "axes.titlepad": 6,
    "axes.titley": 1.0,  # nothing is above the axes that the title would have to make room for
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
    "figure.facecolor": GROUND,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "ytick.major.size": 0,
    "xtick.major.size": 3,
}
