"""What becomes of the readings of single steps: curves of bounded length in the record."""

import math
from collections.abc import Callable
from typing import Any

from labkit.train.clock import Clock
from labkit.train.reading import Reading

LOSS_POINTS = 2000
SPEED_POINTS = 100
Append = Callable[[int, dict[str, float]], None]


class Speed:
    """What a pace in steps means: tokens, FLOPs, the share of what the device can do."""

    def __init__(self, tokens_per_step: int, flops_per_token: float, peak: float | None) -> None:
        self.tokens_per_step, self.flops_per_token, self.peak = tokens_per_step, flops_per_token, peak

    def metrics(self, steps_per_second: float | None) -> dict[str, float]:
        if steps_per_second is None:
            return {}
        tokens = steps_per_second * self.tokens_per_step
        flops = tokens * self.flops_per_token
        share = {} if self.peak is None else {"perf/mfu": flops / self.peak}
        return {"perf/tokens_per_s": tokens, "perf/tflops": flops / 1e12, **share}


class Curves:
    """Losses and norms are means over the steps since the last point, the learning rate is that of the point's step."""

    def __init__(self, append: Append, steps: int, rates: list[float], clock: Clock, speed: Speed) -> None:
        self.append, self.steps, self.rates, self.clock, self.speed = append, steps, rates, clock, speed
        self.loss = self.norm = 0.0
        self.count = 0
        self.timed = clock.timed

    def take(self, reading: Reading, more: Callable[[int], dict[str, float]]) -> None:
        """Add a step; `more` gives what is shown beside the speed."""
        self.loss, self.norm, self.count = self.loss + reading.loss, self.norm + reading.norm, self.count + 1
        values: dict[str, float] = {}
        if self._due(reading.step, LOSS_POINTS):
            values |= self._means(reading.step)
        if self._due(reading.step, SPEED_POINTS):
            values |= self.speed.metrics(self.clock.steps_per_second(self.timed)) | more(reading.step)
            self.timed = self.clock.timed
        if values:
            self.append(reading.step, values)

    def _due(self, step: int, points: int) -> bool:
        return step % math.ceil(self.steps / (points - 1)) == 0 or step in (1, self.steps)

    def _means(self, step: int) -> dict[str, float]:
        means = {"train/loss": self.loss / self.count, "optim/grad_norm": self.norm / self.count}
        self.loss = self.norm = 0.0
        self.count = 0
        return {**means, "optim/lr": self.rates[step - 1]}

    def state(self) -> dict[str, Any]:
        return {"loss": self.loss, "norm": self.norm, "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        self.loss, self.norm, self.count = state["loss"], state["norm"], state["count"]
        self.timed = self.clock.timed
