"""The learning rate over a run, as a factor of the optimizer's own.

Steps count from 0. Warm-up rises linearly over its W steps, (step + 1) / (W + 1); step W is the first at full rate.
What follows is a function of t = (step - W) / (steps - W) in [0, 1): it would reach `final` one step after the last,
so that no step is wasted at zero.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from labkit.spec import Choice, Mistake, Number


def _whole_from_one(value: float) -> float:
    if value >= 1 and value != int(value):
        raise ValueError(f"{value:g} is neither a share of the steps (below 1) nor a whole number of steps")
    return value


Duration = Annotated[Number, Field(ge=0, le=1e12), AfterValidator(_whole_from_one)]
"""A share of the steps where below 1, else a number of steps."""

Ratio = Annotated[Number, Field(ge=0, le=1)]


def length(duration: float, steps: int) -> int:
    """A duration in whole steps, rounded to the nearest."""
    return round(duration * steps) if duration < 1 else int(duration)


def _typed(duration: float) -> str:
    """A duration as it is written: a share, or a number of steps."""
    return repr(duration if duration < 1 else int(duration))


class Schedule(Choice):
    """How the learning rate rises and falls."""

    warmup: Duration = 0.0
    """How long the rate rises: a share of the steps where below 1, else a number of steps."""

    def factor(self, step: int, steps: int) -> float:
        """The factor of the learning rate at a step, counted from 0, of a run of `steps` steps."""
        rise = length(self.warmup, steps)
        return (step + 1) / (rise + 1) if step < rise else self.after(step - rise, steps - rise)

    def after(self, step: int, steps: int) -> float:
        """The factor after the warm-up, with steps counted from its end."""
        raise NotImplementedError

    def check(self, steps: int) -> None:
        """Raises Mistake if a run of so many steps would end before the warm-up does."""
        if (rise := length(self.warmup, steps)) >= steps > 1:
            said, less = ("", f"at most {steps - 1}, or a share")
            if self.warmup < 1:
                said, less = f"{self.warmup!r} of the steps: ", "a smaller share"
            raise Mistake(
                f"schedule.warmup: {said}{rise} steps of warm-up do not fit into {steps} steps; write {less}: 0.05"
            )


class Constant(Schedule):
    """1: the full rate until the end."""

    kind: Literal["constant"] = "constant"

    def after(self, step: int, steps: int) -> float:
        return 1.0


class Linear(Schedule):
    """1 - (1 - final) t (arXiv:2310.07831 finds it hard to beat)."""

    kind: Literal["linear"] = "linear"
    final: Ratio = 0.0
    """The share of the full rate that is left at the end."""

    def after(self, step: int, steps: int) -> float:
        return 1 - (1 - self.final) * step / steps


class Cosine(Schedule):
    """final + (1 - final) (1 + cos πt) / 2 (arXiv:1608.03983)."""

    kind: Literal["cosine"] = "cosine"
    final: Ratio = 0.1
    """The share of the full rate that is left at the end."""

    def after(self, step: int, steps: int) -> float:
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * step / steps)) / 2


class InverseSqrt(Schedule):
    """√((W + 1) / (step + 1)): falls with the square root of the steps, whatever their number (arXiv:1706.03762)."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"

    def factor(self, step: int, steps: int) -> float:
        peak = length(self.warmup, steps) + 1
        return min((step + 1) / peak, math.sqrt(peak / (step + 1)))


class Wsd(Schedule):
    """Warm-up, stable, decay: 1, then to `final` over the last `decay` steps (arXiv:2404.06395)."""

    kind: Literal["wsd"] = "wsd"
    decay: Duration = 0.2
    """How long the rate falls: a share of all the steps, warm-up included, where below 1, else a number of steps."""
    final: Ratio = 0.0
    """The share of the full rate that is left at the end."""
    shape: Literal["linear", "sqrt"] = "linear"
    """Of the decay, x of it passed: 1 - (1 - final) x, or 1 - (1 - final) √x (arXiv:2405.18392)."""

    def idle(self) -> Mapping[str, str]:
        unfallen = "where decay is 0; leave it out, or write the schedule 'constant'"
        return {} if self.decay else dict.fromkeys(("final", "shape"), unfallen)

    def factor(self, step: int, steps: int) -> float:
        fall = length(self.decay, steps)
        passed = step - (steps - fall)
        return super().factor(step, steps) if passed <= 0 else self.fallen(passed / fall)

    def fallen(self, passed: float) -> float:
        """The factor when a share of the decay has passed."""
        return 1 - (1 - self.final) * (math.sqrt(passed) if self.shape == "sqrt" else passed)

    def after(self, step: int, steps: int) -> float:
        return 1.0

    def check(self, steps: int) -> None:
        super().check(steps)
        rise, fall = length(self.warmup, steps), length(self.decay, steps)
        if rise + fall > steps > 1:
            raise Mistake(
                f"schedule.decay: warmup {_typed(self.warmup)} and decay {_typed(self.decay)}: {rise} steps of warm-up "
                f"leave {steps - rise} of {steps} for {fall} of decay; write at most {steps - rise}, or shares: "
                "warmup 0.05 and decay 0.2"
            )
