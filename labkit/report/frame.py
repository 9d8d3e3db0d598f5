"""What stands around a drawing that is a file of its own: its title above it, and below whose line is whose."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from labkit.report.arms import Arm
from labkit.report.theme import INK, Stroke, stroke

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 5.2
"""Inches of every drawing."""
TITLE, LINE = 0.32, 0.19
"""Inches that the title takes, and a line of names."""
COLUMNS = 3
"""So many names in a line at most."""
LONGEST = 30
"""Characters of a name."""
LETTER, STROKE, EDGE = 0.075, 0.24, 0.1
"""Inches of a letter, of the line before a name, and of the room beside both."""

AFTER = 4
"""The order of what comes after the title."""


def below(arms: Sequence[Arm]) -> float:
    """Inches that the arms' names take."""
    return -(-len(arms) // _columns(arms)) * LINE


def _columns(arms: Sequence[Arm]) -> int:
    """As many as the longest name leaves room for."""
    longest = max((len(_short(arm)) for arm in arms), default=0)
    return max(1, min(COLUMNS, int((WIDTH - EDGE) / (STROKE + 2 * EDGE + LETTER * longest))))


def _short(arm: Arm) -> str:
    return arm.name if len(arm.name) <= LONGEST else f"{arm.name[: LONGEST - 1]}…"


def framed(figure: "Figure", title: str, arms: Sequence[Arm], mark: str) -> None:
    """Write the title and the names; the title, which comes first of what is not the drawing, has `mark` as its id."""
    width, height = figure.get_size_inches()
    place = (EDGE / width, 1 - EDGE / height)
    figure.text(*place, title, va="top", weight="bold", size=10, color=INK, gid=mark)
    columns = _columns(arms)
    for index, arm in enumerate(arms):
        row, column = divmod(index, columns)
        up = (below(arms) - (row + 0.5) * LINE) / height
        _name(figure, EDGE + column * (width - EDGE) / columns, up, stroke(index), _short(arm))


def _name(figure: "Figure", across: float, up: float, look: Stroke, name: str) -> None:
    """An arm's name after a piece of its line."""
    from matplotlib.lines import Line2D

    width = figure.get_figwidth()
    line = Line2D([across / width, (across + STROKE) / width], [up, up], color=look.light, linewidth=2, zorder=AFTER)
    line.set_dashes(look.dashes or (None, None))
    figure.add_artist(line)
    figure.text((across + STROKE + EDGE) / width, up, name, va="center_baseline", color=INK, zorder=AFTER)
