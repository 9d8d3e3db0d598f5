"""Quality against cost: what each arm ends at, beside what its training took."""

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from labkit.report.arms import Arm
from labkit.report.drawing import Drawing, Panel, drawn, level_names
from labkit.report.formats import duration, scientific
from labkit.report.theme import MUTED, stroke
from labkit.tracking.record import is_alone

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator

MINUTE = 60.0

Cost = Callable[[Arm], float]

APART = 1.05
"""The costliest arm over the cheapest, below which all cost the same."""


def costs(arms: Sequence[Arm]) -> list[Drawing]:
    """Final quality against compute and against time, where the arms differ in them."""
    said = "Mean over seeds; the bar is one standard deviation either way. No arm on the line is beaten in both."
    timed = f"The time is the median over seeds. {said}"
    panels = [
        Panel("compute", "Quality against compute", said, lambda axes, arms: _drawn(axes, arms, *_COMPUTE)),
        Panel("time", "Quality against time", timed, lambda axes, arms: _drawn(axes, arms, *_TIME)),
    ]
    return drawn(panels, arms)


def training_seconds(arm: Arm) -> float:
    """What a run's training took, median over seeds, without evaluations and checkpoints; NaN where none has a time of
    its own.
    """
    alone = [run.record for run in arm.done if arm.clocked and is_alone(run.record)]
    return median([record.get("seconds") or math.nan for record in alone] or [math.nan])


_COMPUTE: tuple[Cost, str, Callable[[float], str]] = (lambda arm: arm.flops, "training FLOPs", scientific)
_TIME: tuple[Cost, str, Callable[[float], str]] = (
    training_seconds,
    "training time",
    lambda x: f"{x:.3g} s" if x < MINUTE else duration(x),
)


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points (cost, loss) that no other one beats in both, by ascending cost."""
    kept: list[tuple[float, float]] = []
    for point in sorted(points):
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    return kept


def _drawn(axes: "Axes", arms: Sequence[Arm], cost: Cost, name: str, told: Callable[[float], str]) -> bool:
    found = [(index, cost(arm), arm) for index, arm in enumerate(arms) if not arm.placebo and arm.finals]
    found = [(index, x, arm) for index, x, arm in found if math.isfinite(x)]
    if len(found) < 2 or max(x for _, x, _ in found) < APART * min(x for _, x, _ in found):
        return False
    edge = frontier([(x, arm.mean) for _, x, arm in found])
    axes.plot(*zip(*edge, strict=True), color=MUTED, linewidth=1, linestyle=":", zorder=2)
    for index, x, arm in found:
        half = arm.spread if math.isfinite(arm.spread) else 0.0
        axes.errorbar([x], [arm.mean], yerr=[half], color=stroke(index).light, marker="o", markersize=6, linewidth=1.2)
    level_names(axes, f"final {arms[0].metric}", name)
    axes.margins(x=0.12)
    axes.xaxis.set_major_locator(_few())
    axes.xaxis.set_major_formatter(lambda x, _: told(x))
    return True


def _few() -> "MaxNLocator":
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4)
