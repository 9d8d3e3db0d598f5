"""The differences drawn: each arm's mean and interval against the baseline, and the seeds that they come from."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from labkit.report.arms import Arm
from labkit.report.drawing import HEIGHT, Drawing, Panel, drawn, level_names
from labkit.report.formats import interval, signed
from labkit.report.statistics import differences
from labkit.report.theme import GRID, GROUND, INK, MUTED, stroke

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

PITCH, WIDEST = 0.56, 0.85
"""Inches from one arm to the next, at least and at most."""

NAME, LINE, SEEDS = 0.14, 0.32, 0.45
"""Inches from an arm's top to its name, its interval and its seeds."""

TOP, BOTTOM = 0.1, 0.45
"""Inches above and below the axes."""

NAME_LENGTH = 34
"""Longer names are cut in the drawing; the table has them whole."""


def forest(arms: Sequence[Arm], metric: str) -> list[Drawing]:
    """The differences with their intervals, and every run's final figure; what there is of them."""
    compared = [arm for arm in arms if arm.difference.n]
    beside = any(len(arm.finals) > 1 for arm in arms)
    own = " (of a placebo its own 95 %)" if any(arm.placebo for arm in compared) else ""
    inner = max(PITCH * len(compared), HEIGHT - TOP - BOTTOM if beside else 0)  # as high as the drawing beside it
    intervals = Panel(
        "forest",
        "Differences to the baseline",
        f"Mean over paired seeds, 95 % simultaneous interval{own}; small dots are the seeds. "
        "A hollow dot has no interval.",
        lambda axes, arms: _forest(axes, arms, metric, inner),
        legend=False,
        height=inner + TOP + BOTTOM,
        margins=(0.12, 0.12, TOP, BOTTOM),
    )
    by_seed = Panel(
        "seeds",
        "Seed by seed",
        "Each run's final value. Where the lines run in parallel, pairing removes noise that the seeds share.",
        _by_seed,
        height=intervals.height,
    )
    return drawn([*([intervals] if compared else []), *([by_seed] if beside else [])], arms)


def _forest(axes: "Axes", arms: Sequence[Arm], metric: str, height: float) -> bool:
    rows = [(index, arm) for index, arm in enumerate(arms) if arm.difference.n]
    pitch = min(WIDEST, height / len(rows))
    for place, (index, arm) in enumerate(rows):
        _row(axes, (height - pitch * len(rows)) / 2 + pitch * place, arm, arms[0], stroke(index).light)
    axes.axvline(0, color=INK, linewidth=1, zorder=1)
    axes.set_ylim(height, 0)
    axes.set_yticks([])
    axes.grid(visible=True, axis="x", color=GRID, linewidth=0.7)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -0.12 * high), max(high, -0.12 * low))
    axes.set_xlabel(f"Δ {metric} to the baseline", color=MUTED)
    return True


def _row(axes: "Axes", top: float, arm: Arm, baseline: Arm, color: str) -> None:
    """Name and numbers on a line of their own, so that long names take nothing from the plot; the interval under it."""
    gap, line, under = arm.difference, top + LINE, top + SEEDS
    numbers = (
        f"{signed(gap.mean)} {interval(gap.low, gap.high)}" if gap.has_interval else f"{signed(gap.mean)}, one seed"
    )
    _words(axes, 0, top, _short(arm.name)).set(ha="left", weight="bold")
    _words(axes, 1, top, numbers.replace("-", "−")).set(ha="right")
    if gap.has_interval:
        axes.plot([gap.low, gap.high], [line, line], color=color, linewidth=2, solid_capstyle="butt", zorder=3)
        axes.plot([gap.low, gap.high], [line, line], color=color, linestyle="", marker="|", markersize=7, zorder=3)
        seeds = differences(arm.finals, baseline.finals)
        axes.plot(seeds, [under] * gap.n, color=color, linestyle="", marker="o", markersize=2.8, alpha=0.7, zorder=4)
    filled = color if gap.has_interval else GROUND
    axes.plot([gap.mean], [line], color=color, marker="o", markersize=6.5, markerfacecolor=filled, zorder=3)


def _words(axes: "Axes", across: float, top: float, text: str) -> "Text":
    backed = {"facecolor": GROUND, "edgecolor": "none", "pad": 1.0}
    return axes.text(
        across, top + NAME, text, transform=axes.get_yaxis_transform(), va="center", color=INK, bbox=backed
    )


def _by_seed(axes: "Axes", arms: Sequence[Arm]) -> bool:
    seeds = sorted({seed for arm in arms for seed in arm.finals})
    for index, arm in enumerate(arms):
        look = stroke(index)
        finals = [arm.finals.get(seed, math.nan) for seed in seeds]
        line = axes.plot(seeds, finals, color=look.light, linewidth=1.3)[0]
        line.set(marker="o", markersize=4, zorder=4 if index == 0 else 3)
        line.set_dashes(look.dashes or (None, None))
    axes.set_xticks(seeds)
    axes.set_xlim(min(seeds, default=0) - 0.3, max(seeds, default=0) + 0.3)
    level_names(axes, f"final {arms[0].metric}", "seed")
    return True


def _short(name: str) -> str:
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…"
