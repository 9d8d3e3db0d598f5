"""The curves drawn: losses against tokens, by position in the context, and beyond the training length."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from labkit.report import curves
from labkit.report.arms import Arm
from labkit.report.curves import Curve
from labkit.report.drawing import Drawing, Panel, drawn, level_names
from labkit.report.formats import engineering, listed
from labkit.report.theme import INK, stroke

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMOOTHING = 0.05
"""The training loss is averaged over this part of the run."""

END = 0.75
"""Where the zoom on the end begins."""

START = 0.08
"""The part of the run whose steep fall the vertical axis need not hold."""

NATS = "nats a token"


def panels(arms: Sequence[Arm]) -> list[Drawing]:
    """Every plot that the records have figures for."""
    band = "Mean over seeds, the band spans them."
    fixed = f"The curve is measured on {_windows(arms)}; the table on the whole validation split. {band}"
    smooth = f"Averaged over {100 * SMOOTHING:g} % of the run. {band}"
    bins = f"By the tokens of context given, in bins of powers of two, {_within(arms)}. {band}"
    lengths = f"On the same targets, in documents long enough, read in contexts of multiples of it. {band}"
    longer = f"The longest of them minus the training length, by the place in the document's text. {band}"
    return drawn(
        [
            Panel("val", "Validation loss", f"{fixed} A cross: a run diverged.", _validation),
            Panel("end", "The end of training", f"The last quarter of the same curves. {band}", _ending),
            Panel("train", "Training loss", smooth, _training),
            Panel("position", "Loss by position", bins, _by_position),
            Panel("gap", "Difference by position", f"To the baseline, paired by seed. {band}", _gap_by_position),
            Panel("beyond", "Beyond the training length", lengths, _beyond),
            Panel("longer", "What a longer context changes", longer, _longer),
        ],
        arms,
    )


def _windows(arms: Sequence[Arm]) -> str:
    numbers = sorted({run.windows for arm in arms for run in arm.outcomes} - {0})
    return f"{listed(map(str, numbers))} fixed windows" if numbers else "fixed windows"


def _within(arms: Sequence[Arm]) -> str:
    """Of what windows the losses by position are."""
    whole = all(run.record.get("by_position", {}).get("within") for arm in arms for run in arm.done)
    return "in windows within one document" if whole else "on the whole split, in windows that may cross documents"


def _validation(axes: "Axes", arms: Sequence[Arm]) -> bool:
    found = [curves.over_tokens(arm, "val/loss") for arm in arms]
    if not _lines(axes, found):
        return False
    _frame(axes, found, START)
    for index, arm in enumerate(arms):
        for line in curves.diverged(arm, "val/loss"):
            _broken(axes, line, stroke(index).light)
    return _over_tokens(axes)


def _ending(axes: "Axes", arms: Sequence[Arm]) -> bool:
    found = [curves.over_tokens(arm, "val/loss") for arm in arms]
    if not _lines(axes, found, marker="o"):
        return False
    _frame(axes, found, END)
    axes.set_xlim(left=END * _last(found))
    return _over_tokens(axes)


def _training(axes: "Axes", arms: Sequence[Arm]) -> bool:
    found = [curves.over_tokens(arm, "train/loss", SMOOTHING) for arm in arms]
    if not _lines(axes, found):
        return False
    _frame(axes, found, START)
    return _over_tokens(axes)


def _by_position(axes: "Axes", arms: Sequence[Arm]) -> bool:
    return _lines(axes, [curves.by_position(arm) for arm in arms], marker="o") and _over_positions(axes, NATS)


def _gap_by_position(axes: "Axes", arms: Sequence[Arm]) -> bool:
    found = [curves.by_position(arm, arms[0]) for arm in arms[1:]]
    axes.axhline(0, color=INK, linewidth=1, zorder=1)
    return _lines(axes, found, marker="o", first=1) and _over_positions(axes, f"Δ {NATS}")


def _beyond(axes: "Axes", arms: Sequence[Arm]) -> bool:
    found = [curves.beyond(arm) for arm in arms]
    multiples = sorted({float(x) for curve in found for x in curve.x})
    if len(multiples) < 2 or not _lines(axes, found, marker="o"):
        return False
    level_names(axes, NATS, "context, in training lengths")
    axes.set_xscale("log", base=2)
    axes.set_xticks(multiples, [f"×{x:g}" for x in multiples])
    axes.minorticks_off()
    return True


def _longer(axes: "Axes", arms: Sequence[Arm]) -> bool:
    found = [curves.longer(arm) for arm in arms]
    axes.axhline(0, color=INK, linewidth=1, zorder=1)
    return _lines(axes, found, marker="o") and _over_positions(axes, f"Δ {NATS}")


def _lines(axes: "Axes", found: Sequence[Curve], marker: str = "", first: int = 0) -> bool:
    """The curves with their bands, the baseline above the others; whether there is any."""
    shade = min(0.16, 0.8 / max(1, len(found)))
    for index, curve in enumerate(found, start=first):
        if curve.x.size:
            look, order = stroke(index), 4 if index == 0 else 3
            axes.fill_between(curve.x, curve.low, curve.high, color=look.light, alpha=shade, linewidth=0, zorder=2)
            line = axes.plot(curve.x, curve.mean, color=look.light, linewidth=1.5, zorder=order)[0]
            line.set(marker=marker, markersize=2.6)
            line.set_dashes(look.dashes or (None, None))
    return any(curve.x.size for curve in found)


def _frame(axes: "Axes", found: Sequence[Curve], begin: float) -> None:
    """Limits that hold everything from a part of the run on, and let what happened before run out of the frame."""
    last = _last(found)
    late = [_from(curve, begin * last) for curve in found if curve.x.size]
    low, high = min(low.min() for low, _ in late), max(high.max() for _, high in late)
    room = 0.06 * (high - low) or 0.01
    axes.set_ylim(low - room, high + room)
    axes.set_xlim(0, 1.02 * last)


def _from(curve: Curve, begin: float) -> tuple[curves.Values, curves.Values]:
    """A band's edges from a place on, and where the line crosses it; all of a curve that ends before."""
    at = curve.x >= begin if curve.x[-1] >= begin else curve.x >= 0
    crossed = begin if curve.x[0] <= begin <= curve.x[-1] else curve.x[at][0]
    edges = [np.append(np.interp(crossed, curve.x, edge), edge[at]) for edge in (curve.low, curve.high)]
    return edges[0], edges[1]


def _last(found: Sequence[Curve]) -> float:
    return max(float(curve.x[-1]) for curve in found if curve.x.size)


def _broken(axes: "Axes", line: dict[float, float], color: str) -> None:
    """A diverged run: thin, and a cross at its end or where it leaves the frame for good."""
    if not line:
        return
    x, y = np.array(list(line)), np.array(list(line.values()))
    top = axes.get_ylim()[1]
    inside = np.flatnonzero(y <= top)
    leaves = slice(int(inside[-1]), int(inside[-1]) + 2) if inside.size else slice(0, 1)
    axes.plot(x, y, color=color, linewidth=0.9, alpha=0.8, zorder=2)
    at, height = float(np.interp(top, y[leaves], x[leaves])), min(top, float(y[-1]))
    axes.plot([at], [height], color=color, marker="x", markersize=6, markeredgewidth=1.8, clip_on=False, zorder=6)


def _over_tokens(axes: "Axes") -> bool:
    level_names(axes, NATS, "tokens")
    axes.xaxis.set_major_formatter(lambda x, _: engineering(x))
    return True


def _over_positions(axes: "Axes", what: str) -> bool:
    level_names(axes, what, "position in the context")
    axes.set_xscale("log", base=2)
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    return True
