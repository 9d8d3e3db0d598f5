"""The nearest grid point of a count that grows with its index."""

from collections.abc import Callable
from functools import cache

Count = Callable[[int], float | None]
"""Index, from 1 -> the count; None where nothing can be of that size."""

REACH = 64
"""So many neighbours are tried where nothing can be of a size, as with a width that its heads do not divide."""

GUESSES = 4
"""So many times a straight line is tried before halving: most counts are straight lines."""


def nearest(count: Count, target: float, start: int, most: int) -> int | None:
    """The index up to `most` whose count is nearest to the target, the smaller of two; None where there is none.

    `start` is where to look first; the count never falls as the index grows.
    """
    counted = cache(count)

    def upwards(index: int) -> int | None:
        return next((at for at in range(index, min(index + REACH, most + 1)) if counted(at) is not None), None)

    def reached(index: int) -> float:
        """The count at the first possible index from here on."""
        return float("inf") if (at := upwards(index)) is None else counted(at) or 0.0

    low, high = _bracket(reached, target, start, most)
    for tried in range(2 * most.bit_length()):
        if high - low < 2:
            break
        middle = _line(reached, target, low, high) if low and tried < GUESSES else (low + high) // 2
        low, high = (low, middle) if reached(middle) >= target else (middle, high)
    below = next((at for at in range(low, max(0, low - REACH), -1) if counted(at) is not None), None)
    found = [at for at in (below, upwards(high)) if at is not None]
    return min(found, key=lambda at: (abs((counted(at) or 0.0) - target), at), default=None)


def _bracket(reached: Callable[[int], float], target: float, start: int, most: int) -> tuple[int, int]:
    """(low, high): the count is below the target at low, which is 0 at the least, and not at high."""
    low, high = 0, max(1, min(start, most))
    while high <= most and reached(high) < target:
        low, high = high, 2 * high
    return low, min(high, most + 1)


def _line(reached: Callable[[int], float], target: float, low: int, high: int) -> int:
    """Where a straight line between the ends meets the target, strictly inside."""
    below, above = reached(low), reached(high)
    share = (target - below) / (above - below) if below < above < float("inf") else 0.5
    return min(max(low + int(share * (high - low)), low + 1), high - 1)
