"""An experiment's results as pandas frames, for a notebook."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.report.arms import Arm
from labkit.report.comparison import Comparison, compare
from labkit.report.excerpt import excerpt
from labkit.report.words import shown
from labkit.study.finding import edition_of
from labkit.tracking.console import Console

if TYPE_CHECKING:
    from pandas import DataFrame


def results(target: str, runs: str | Path | None = None) -> "Results":
    """What is on record of an experiment, by its name, its edition's (``rope_theta@small``) or its file.

    `runs` is the folder of the runs, the project's unless given. Raises Mistake where nothing has been run.
    """
    console = Console()
    comparison = compare(edition_of(target, None if runs is None else Path(runs), console.say))
    for note in comparison.notes:
        if note.kind == "damaged":
            console.say(f"damaged: {note.text}", "yellow")
    return Results(comparison)


@dataclass(frozen=True)
class Results:
    """Three frames; losses are in nats, speeds in tokens per second."""

    comparison: Comparison

    def __repr__(self) -> str:
        return f"Results of {self.comparison.title}: .arms, .runs and .curves are pandas frames"

    def _repr_html_(self) -> str:
        return excerpt(self.comparison)

    @cached_property
    def arms(self) -> "DataFrame":
        """An arm a row, the baseline first: its mean, its difference with the interval, its verdict and its size."""
        return _frame([self._arm(arm) for arm in self.comparison.arms], ["arm"])

    @cached_property
    def runs(self) -> "DataFrame":
        """A run a row, by arm and seed: what it ended with, what it cost, and where it lies."""
        rows = [
            {
                "arm": arm.name,
                "seed": run.seed,
                "status": run.status,
                **run.record.get("final", {}),
                **{name: run.record.get(name) for name in ("epochs", "seconds", "device", "fingerprint")},
                "path": str(run.run.path),
            }
            for arm in self.comparison.arms
            for run in arm.outcomes
        ]
        return _frame(rows, ["arm", "seed"])

    @cached_property
    def curves(self) -> "DataFrame":
        """A step a row, by arm, seed and step; a column for each metric, NaN where it was not measured."""
        rows: dict[tuple[str, int, int], dict[str, Any]] = {}
        for arm in self.comparison.arms:
            for run in arm.outcomes:
                for key, curve in run.metrics.items():
                    for step, value in curve:
                        place = arm.name, run.seed, step
                        rows.setdefault(place, {"arm": arm.name, "seed": run.seed, "step": step})[key] = value
        return _frame([rows[place] for place in sorted(rows, key=self._order)], ["arm", "seed", "step"])

    def _order(self, place: tuple[str, int, int]) -> tuple[int, int, int]:
        names = [arm.name for arm in self.comparison.arms]
        return names.index(place[0]), *place[1:]

    def _arm(self, arm: Arm) -> dict[str, Any]:
        gap = arm.difference
        return {
            "arm": arm.name,
            "label": arm.title,
            self.comparison.metric: arm.mean,
            "seeds": len(arm.finals),
            "difference": gap.mean,
            "low": gap.low,
            "high": gap.high,
            "text_low": arm.second[0] if arm.second else None,
            "text_high": arm.second[1] if arm.second else None,
            "verdict": "" if arm.is_baseline else shown(arm.verdict),
            "params": arm.params,
            "flops_per_token": arm.flops_per_token,
            "tokens": arm.tokens,
            "tokens_per_s": arm.tokens_per_s,
        }


def _frame(rows: list[dict[str, Any]], index: list[str]) -> "DataFrame":
    import pandas as pd

    columns = list(dict.fromkeys([*index, *(name for row in rows for name in row)]))
    frame = pd.DataFrame(rows, columns=columns)
    frame["arm"] = pd.Categorical(frame["arm"], categories=list(dict.fromkeys(frame["arm"])))  # sorted as they stand
    return frame.set_index(index)
