"""What decides in a sweep: a loss, or what it costs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from labkit.faults import closest
from labkit.report.arms import SPEED
from labkit.spec import Mistake, shown
from labkit.train.run import RunSpec

Direction = Literal["minimize", "maximize"]

COSTS = {
    SPEED: "maximize",
    "perf/memory_gib": "minimize",
    "params": "minimize",
    "flops_per_token": "minimize",
}
"""What else a run is judged by, and which way."""


@dataclass(frozen=True)
class Objective:
    """A figure of a finished run, and which way it is better."""

    key: str
    direction: Direction

    @property
    def is_loss(self) -> bool:
        return self.key.startswith("val/")

    @property
    def is_speed(self) -> bool:
        """Whether it is a run's own only where no other trains beside it."""
        return self.key == SPEED

    @property
    def on_the_way(self) -> bool:
        """Whether it is measured at evaluation points."""
        return self.key in ("val/loss", "val/bpb")

    def of(self, record: Mapping[str, Any]) -> float:
        """The figure in a record; NaN where it is not there."""
        value = record.get("final", {}).get(self.key, record.get(self.key))
        return math.nan if value is None else float(value)

    def better(self, one: float, other: float) -> bool:
        return one < other if self.direction == "minimize" else one > other


def objectives(base: RunSpec, minimize: Any, maximize: Any) -> tuple[Objective, ...]:
    """From what a user wrote under the two words, in their order. Raises Mistake."""
    losses = ["val/loss", "val/bpb", *(f"val/loss_x{times}" for times in base.evaluation.beyond)]
    known = {**dict.fromkeys(losses, "minimize"), **COSTS}
    found: list[Objective] = []
    for word, given in (("minimize", minimize), ("maximize", maximize)):
        for key in _listed(word, given):
            if key not in known:
                raise Mistake(f"{word}: no metric {key!r}.{closest(key, known)}")
            if known[key] != word:
                raise Mistake(f"{word}: {key} is better the other way; write {known[key]}={key!r}")
            if any(one.key == key for one in found):
                raise Mistake(f"{word}: {key} stands there twice; leave one out")
            found.append(Objective(key, "minimize" if word == "minimize" else "maximize"))
    if not found:
        raise Mistake("minimize: nothing decides; write minimize='val/loss'")
    return tuple(found)


def _listed(word: str, given: Any) -> Sequence[str]:
    listed: Any = [given] if isinstance(given, str) else given
    if not isinstance(listed, list | tuple) or not all(isinstance(key, str) for key in listed):
        raise Mistake(f"{word}: expected the name of a metric, or several, got {shown(given)}; write 'val/loss'")
    return listed
