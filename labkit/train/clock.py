"""How long training took and how fast it is, without what evaluation and checkpoints take."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


class Clock:
    """Runs from its making on. Speed leaves out the first step of each session, which loads libraries and kernels."""

    def __init__(self) -> None:
        self._total, self._since, self._stopped = 0.0, time.perf_counter(), False
        self._timed_steps, self._timed_seconds = 0, 0.0
        self._first = True

    @property
    def seconds(self) -> float:
        """Of training so far, over all sessions whose steps were kept."""
        return self._total if self._stopped else self._total + time.perf_counter() - self._since

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Leave out what happens inside."""
        self._total, self._stopped = self.seconds, True
        try:
            yield
        finally:
            self._since, self._stopped = time.perf_counter(), False

    def tick(self, seconds: float) -> None:
        """A step has ended, and took so long."""
        if not self._first:
            self._timed_steps += 1
            self._timed_seconds += seconds
        self._first = False

    @property
    def timed(self) -> tuple[int, float]:
        """Steps whose speed counts, and the seconds they took."""
        return self._timed_steps, self._timed_seconds

    def steps_per_second(self, since: tuple[int, float] = (0, 0.0)) -> float | None:
        """The speed since an earlier `timed`; None before the second step."""
        steps, seconds = self._timed_steps - since[0], self._timed_seconds - since[1]
        return steps / seconds if steps and seconds > 0 else None

    def state(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "timed": list(self.timed)}

    def restore(self, state: dict[str, Any]) -> None:
        self._total, self._since = state["seconds"], time.perf_counter()
        self._timed_steps, self._timed_seconds = state["timed"]
