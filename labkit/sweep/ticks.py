"""Ticks of a logarithmic axis that can be read: powers of ten over decades, 1–2–5 within one."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axis import Axis

FEWEST = 3
"""Ticks that show how an axis runs."""


def logarithmic(axis: "Axis") -> None:
    """Give an axis whose limits are set its ticks, as plain numbers."""
    low, high = sorted(axis.get_view_interval())
    places = logarithmic_places(float(low), float(high))
    axis.set_ticks([], minor=True)
    axis.set_ticks(places, [f"{place:g}" for place in places])


def logarithmic_places(low: float, high: float) -> list[float]:
    """The fewest round numbers from `low` to `high`, both above 0, that are enough; else evenly spaced ones."""
    for digits in ((1,), (1, 2, 5), range(1, 10)):
        if len(found := _rounded(low, high, digits)) >= FEWEST:
            return found
    step = 10 ** math.floor(math.log10((high - low) / FEWEST))
    wide = next(step * factor for factor in (5, 2, 1) if (high - low) / (step * factor) >= FEWEST)
    return [float(f"{wide * place:.6g}") for place in range(math.ceil(low / wide), math.floor(high / wide) + 1)]


def _rounded(low: float, high: float, digits: Sequence[int]) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    found = [float(f"{digit}e{power}") for power in powers for digit in digits]
    return [place for place in found if low <= place <= high]
