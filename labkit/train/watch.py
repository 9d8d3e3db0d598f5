"""When training counts as diverged: a result with a step, not a crash."""

from collections import deque
from typing import Any

from labkit.train.reading import Reading

WINDOW = 50
"""Steps in the running mean of the loss."""
MARGIN = 0.5
"""How far above the initial loss, in nats, that mean may lie after the warm-up."""


class Watch:
    """Diverged: a loss or norm that is not finite, or after the warm-up a running mean above the initial loss + 0.5."""

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.initial = 0.0
        self.recent: deque[float] = deque(maxlen=WINDOW)

    def sees_divergence(self, reading: Reading) -> bool:
        """Take a step's reading into account."""
        if reading.frozen:
            return True
        if reading.step == 1:
            self.initial = reading.loss
        self.recent.append(reading.loss)
        settled = reading.step > self.warmup and len(self.recent) == WINDOW
        return settled and self.mean > self.initial + MARGIN

    @property
    def mean(self) -> float:
        """The mean loss of the last steps, at most fifty, in nats."""
        return sum(self.recent) / len(self.recent)

    def state(self) -> dict[str, Any]:
        return {"initial": self.initial, "recent": list(self.recent)}

    def restore(self, state: dict[str, Any]) -> None:
        self.initial = state["initial"]
        self.recent = deque(state["recent"], maxlen=WINDOW)
