"""Ranges that end too early: how far one could go on, so that a best value at its edge has room."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from labkit.search.ranges import Integers, LogUniform, Range, Uniform

Numbers = Uniform | LogUniform | Integers


def widened(below: Range, end: str, holds: Callable[[Any], bool]) -> Numbers | None:
    """The range that goes on the furthest beyond an end and holds there; None where nothing beyond it does."""
    assert isinstance(below, Numbers)
    return next((wider for wider in _wider(below, end) if holds(wider.high if end == "upper" else wider.low)), None)


def _wider(below: Numbers, end: str) -> Iterator[Numbers]:
    """The furthest first."""
    for far in _beyond(below, 1 if end == "upper" else -1):
        yield replace(below, high=far) if end == "upper" else replace(below, low=far)


def _beyond(below: Numbers, sign: int) -> Iterator[Any]:
    """Ten times as far, or once more its length; at last a tenth of that."""
    last = below.values[-1] if sign > 0 else below.low
    if isinstance(below, Integers):
        yield from (last + sign * steps * below.step for steps in (max(1, len(below.values) // 2), 1))
    elif isinstance(below, LogUniform):
        yield from (_round(last * factor**sign) for factor in (10, 3, 1.1))
    else:
        yield from (_round(last + sign * share * (below.high - below.low)) for share in (1, 0.5, 0.1))


def _round(number: float) -> float:
    """As people write it."""
    return float(f"{number:.3g}")
