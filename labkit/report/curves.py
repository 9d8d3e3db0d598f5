"""Curves: an arm's runs as one line with a band over its seeds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.report.arms import Arm, Outcome

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """A line and its band: the mean over seeds between the lowest and the highest of them, each of shape (points,)."""

    x: Values
    mean: Values
    low: Values
    high: Values


def over_tokens(arm: Arm, key: str, window: float = 0.0) -> Curve:
    """A metric against the tokens seen; `window` is the part of the run over which each seed is smoothed.

    Of the runs that are done; where none is, of those on their way, up to the step that all have reached.
    """
    runs = arm.done or tuple(run for run in arm.outcomes if run.status != "diverged" and run.metrics.get(key))
    return _band([_smoothed(_by_tokens(run, key), window) for run in runs])


def diverged(arm: Arm, key: str) -> list[dict[float, float]]:
    """The same of each run that diverged, as far as it was finite: tokens -> value."""
    return [_by_tokens(run, key) for run in arm.diverged]


def by_position(arm: Arm, baseline: Arm | None = None) -> Curve:
    """The loss against the position in the context (from 1), at the middle of each log2 bin.

    Given a baseline: the difference to its loss, seed by seed.
    """
    positions = {run.seed: _positions(run) for run in arm.done}
    if baseline is None:
        return _band(list(positions.values()))
    others = {run.seed: _positions(run) for run in baseline.done}
    return _band([_minus(positions[seed], others[seed]) for seed in sorted(positions.keys() & others.keys())])


def beyond(arm: Arm, multiples: Sequence[int] = (2, 4)) -> Curve:
    """The loss against the context's length in multiples of the training length, as far as the encoding reaches."""
    return _band([_lengths(run, multiples) for run in arm.done])


def longer(arm: Arm) -> Curve:
    """What the longest context changes, against the place in the text: its loss minus that at the training length.

    Of the same targets, at the middle of each log2 bin; below 0 the text before the training length's window helps.
    """
    return _band([found for run in arm.done if (found := _longest(run))])


def _longest(run: Outcome) -> dict[float, float]:
    beyond: Mapping[str, Any] = run.record.get("beyond") or {"edges": [], "loss": {}}
    losses: Mapping[str, Sequence[float | None]] = beyond["loss"]
    longest = max(losses, key=int, default="1")
    if longest == "1" or "1" not in losses:
        return {}
    long, short = (_middles(beyond["edges"], losses[multiple]) for multiple in (longest, "1"))
    return _minus(long, short)


def _lengths(run: Outcome, multiples: Sequence[int]) -> dict[float, float]:
    """Multiple -> loss of the same targets; at the training length that is not the whole split's."""
    found = {float(multiple): run.final(f"val/loss_x{multiple}") for multiple in (1, *multiples)}
    return {x: y for x, y in sorted(found.items()) if not math.isnan(y)}


def _by_tokens(run: Outcome, key: str) -> dict[float, float]:
    scale = run.record.get("tokens_per_step", 1)
    return {float(step * scale): value for step, value in run.metrics.get(key, []) if not math.isnan(value)}


def _positions(run: Outcome) -> dict[float, float]:
    bins = run.record.get("by_position", {"edges": [], "loss": []})
    return _middles(bins["edges"], bins["loss"])


def _middles(edges: Sequence[float], losses: Sequence[float | None]) -> dict[float, float]:
    """Middle √(first · last) -> loss; the bin [a, b) holds the positions a … b - 1, the last bin b too."""
    ends = [*(edge - 1 for edge in edges[1:-1]), *edges[-1:]]
    middles = [math.sqrt(first * last) for first, last in zip(edges, ends, strict=False)]
    return {x: y for x, y in zip(middles, losses, strict=False) if y is not None}


def _minus(here: Mapping[float, float], there: Mapping[float, float]) -> dict[float, float]:
    return {x: here[x] - there[x] for x in sorted(here.keys() & there.keys())}


def _smoothed(line: Mapping[float, float], window: float) -> dict[float, float]:
    """The mean over a window of a part of the points: centred, narrow where the fall is steep, cut at the end."""
    values = np.array(list(line.values()))
    reach = int(len(values) * window / 2)
    if not reach:
        return dict(line)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    before, after = np.minimum(reach, at), np.minimum(np.minimum(reach, at), len(values) - 1 - at)
    means = (sums[at + after + 1] - sums[at - before]) / (before + after + 1)
    return dict(zip(line, means.tolist(), strict=True))


def _band(lines: Sequence[Mapping[float, float]]) -> Curve:
    """The lines at the places that all of them have; empty of none."""
    shared = sorted(set.intersection(*(set(line) for line in lines))) if lines else []
    values = np.array([[line[x] for x in shared] for line in lines]).reshape(len(lines), len(shared))
    if not shared:
        return Curve(*(np.empty(0) for _ in range(4)))
    return Curve(np.array(shared), values.mean(axis=0), values.min(axis=0), values.max(axis=0))
