"""Points of a line with their numbers beside them, none upon another or upon the line."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from labkit.report.theme import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DIGIT, LINE, DOT = 5.2, 8.0, 2.5
"""Points: the width of a digit, the height of a line, the reach of a dot."""

Box = tuple[float, float, float, float]
"""Left, right, lower and upper end in points."""


def numbered(axes: "Axes", places: Mapping[str, tuple[float, float]]) -> None:
    """Write each name beside its place, where there is room; the axes have their limits already."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    scale = 72 / figure.dpi
    points: dict[str, tuple[float, float]] = {}
    for name, place in places.items():
        x, y = axes.transData.transform(place)
        points[name] = (scale * float(x), scale * float(y))
    for name, offset in offsets(points).items():
        axes.annotate(
            name, places[name], xytext=offset, textcoords="offset points", color=INK, ha="center", va="center", zorder=4
        )


def offsets(points: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Name -> from its point to the middle of its text; one that has room nowhere is left out."""
    taken = [_around(point, DOT, DOT) for point in points.values()]
    taken += [_around(point, 0, 0) for point in _joined(sorted(points.values()))]
    found: dict[str, tuple[float, float]] = {}
    for name, (x, y) in points.items():
        half = DIGIT * len(name) / 2
        for right, up in _beside(half):
            box = _around((x + right, y + up), half, LINE / 2)
            if not any(_meet(box, other) for other in taken):
                found[name] = (right, up)
                taken.append(box)
                break
    return found


def _joined(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Places along the line through the points, so near that no text fits between them."""
    for (left, one), (right, other) in pairwise(points):
        parts = math.ceil(math.hypot(right - left, other - one) / DOT) + 1
        yield from ((left + (right - left) * i / parts, one + (other - one) * i / parts) for i in range(parts))


def _beside(half: float) -> Iterator[tuple[float, float]]:
    """Where a text of that half width may stand: level with its point first."""
    side, over = half + DOT + 1.5, LINE / 2 + DOT + 0.5
    yield from ((side, 0), (-side, 0), (0, over), (0, -over))
    yield from ((side, over), (side, -over), (-side, over), (-side, -over))


def _around(middle: Sequence[float], wide: float, high: float) -> Box:
    return (middle[0] - wide, middle[0] + wide, middle[1] - high, middle[1] + high)


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]
