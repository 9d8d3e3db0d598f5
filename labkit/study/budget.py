"""What a span of time buys: how many seeds of how many steps, and what they show."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labkit.report.arms import finite
from labkit.spec import Mistake
from labkit.study.forecast import Forecast, Resolution

SEEDS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)
ENOUGH = 4
"""Seeds that are proposed at least; fewer leave the noise too uncertain."""

FEWEST = 20
"""Steps, below which nothing is proposed."""

UNITS = {"h": 3600.0, "m": 60.0, "min": 60.0, "s": 1.0, "d": 86400.0}


@dataclass(frozen=True)
class Proposal:
    """One way to spend it."""

    resolution: Resolution
    steps: int
    """The baseline's."""
    share: float
    """Of the steps as written."""
    seconds: float
    epochs: float
    chosen: bool = False

    @property
    def seeds(self) -> int:
        return self.resolution.seeds

    def as_json(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("seeds", "steps", "seconds", "epochs", "chosen")}
        return finite(own | {"difference": self.resolution.difference, "tie": self.resolution.tie})


def seconds_in(text: str) -> float:
    """``2h``, ``90m``, ``1h30m``, ``45s``. Raises Mistake."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(min|[dhms])", text)
    total = sum(float(number) * UNITS[unit] for number, unit in parts)
    if not total or re.sub(r"(\d+(?:\.\d+)?)\s*(min|[dhms])|\s", "", text):
        raise Mistake(f"--budget {text}: write a span of time, such as 2h, 90m or 1h30m")
    return total


def proposals(forecast: Forecast, budget: float) -> list[Proposal]:
    """For each number of seeds the most steps that fit, up to those written; the one to take is marked.

    That is the steps as written if at least four seeds fit, else four seeds. Raises Mistake where a pace is unknown or
    nothing fits.
    """
    if any(math.isnan(forecast.seconds(arm)) for arm in forecast.reckoned):
        raise Mistake("--budget: it is not known how long a run takes here; `labkit plan` measures it")
    found = list(_fitting(forecast, budget))
    if not found:
        least = forecast.makespan(list(_runs(forecast, 2, _least(forecast))))
        raise Mistake(
            f"--budget: two seeds of {FEWEST} steps take {least:.0f} s here; write more, or a smaller experiment"
        )
    whole = [each for each in found if each.share == 1.0]
    enough = [each for each in found if each.seeds <= ENOUGH]
    best = whole[-1] if whole and whole[-1].seeds >= ENOUGH else (enough or found)[-1]
    return [_marked(each, each is best) for each in found]


def _fitting(forecast: Forecast, budget: float) -> Iterator[Proposal]:
    for seeds in SEEDS:
        share = _share(forecast, seeds, budget)
        if share >= _least(forecast):
            seconds, base = forecast.makespan(list(_runs(forecast, seeds, share))), forecast.runner.arms[0]
            steps = max(1, math.floor(share * base.steps))
            yield Proposal(forecast.resolution(seeds), steps, share, seconds, share * forecast.epochs(base))


def _least(forecast: Forecast) -> float:
    return min(1.0, FEWEST / forecast.runner.arms[0].steps)


def _share(forecast: Forecast, seeds: int, budget: float) -> float:
    """The largest share of the steps as written that fits, by halving; 0 where none does."""

    def fits(share: float) -> bool:
        return forecast.makespan(list(_runs(forecast, seeds, share))) <= budget

    if fits(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _runs(forecast: Forecast, seeds: int, share: float) -> Iterator[float]:
    """Seconds of every run that has to be trained for it; whole ones that are finished are there already."""
    done = {(job.counted, job.seed) for job, state in forecast.states.items() if state in ("finished", "answered")}
    for seed in forecast.runner.experiment.first_seeds(seeds).seed_list:
        for arm in forecast.reckoned:
            if share < 1.0 or (arm, seed) not in done:
                yield forecast.seconds(arm, share)


def _marked(each: Proposal, chosen: bool) -> Proposal:
    return Proposal(each.resolution, each.steps, each.share, each.seconds, each.epochs, chosen)
