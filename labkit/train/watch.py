"""When training counts as diverged: a result with a step and a reason, not a crash."""

from collections import deque
from statistics import median
from typing import Any

from labkit.train.reading import Reading

WINDOW = 50
"""Steps whose losses are looked at together."""
MARGIN = 0.5
"""How far above the initial loss, in nats, they may lie after the warm-up."""


class Watch:
    """Diverged: a loss or norm that is not finite, or after the warm-up losses that stay above the initial one + 0.5.

    They stay there where both their running mean and median over fifty steps do: a spike from which training recovers
    lifts the mean alone.
    """

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.initial = 0.0
        self.recent: deque[float] = deque(maxlen=WINDOW)
        self.why = ""
        """Why the last reading is a divergence, if it is one."""

    def sees_divergence(self, reading: Reading) -> bool:
        """Take a step's reading into account."""
        if reading.frozen:
            self.why = "a loss or a gradient is not finite"
            return True
        if reading.step == 1:
            self.initial = reading.loss
        self.recent.append(reading.loss)
        limit, settled = self.initial + MARGIN, reading.step > self.warmup and len(self.recent) == WINDOW
        self.why = f"{WINDOW} losses of mean {self.mean:.2f} stay above the initial {self.initial:.2f} + {MARGIN}"
        return settled and self.mean > limit and median(self.recent) > limit

    @property
    def mean(self) -> float:
        """The mean loss of the last steps, at most fifty, in nats."""
        return sum(self.recent) / len(self.recent)

    def state(self) -> dict[str, Any]:
        return {"initial": self.initial, "recent": list(self.recent)}

    def restore(self, state: dict[str, Any]) -> None:
        self.initial = state["initial"]
        self.recent = deque(state["recent"], maxlen=WINDOW)
