"""How MLflow's UI opens on an edition: the note on top; the charts, grouped by variant with bands over the seeds."""

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self

from labkit.tracking.mlflow.board import LONGEST_NOTE, Board
from labkit.tracking.mlflow.facts import Setting
from labkit.tracking.mlflow.links import shared
from labkit.tracking.mlflow.params import clipped, name
from labkit.tracking.mlflow.trials import is_sweep, of_trials
from labkit.tracking.record import FINISHED, Edition

SECTIONS = {
    "curves": ("val/loss", "position/val_loss", "train/loss", "val/bpb", "optim/grad_norm"),
    "final": tuple(f"final/{key}" for key in ("val_loss", "val_bpb", "val_loss_x2", "val_loss_x4", "train_loss")),
    "perf": ("perf/tokens_per_s", "perf/tflops", "perf/mfu", "perf/memory_gib", "optim/lr", "data/epoch"),
}
END = "end"
"""The section of the enlarged curve, which says what it is: the UI shows no title of ours on a chart."""
OPEN = ("curves", END, "final")
RESULTS = ("final/val_loss", "final/val_bpb")
_CHART = {"deleted": False, "isGenerated": True, "runsCountToCompare": 100}
_BAR = {"type": "BAR", **_CHART}
_LINE = {
    "type": "LINE",
    **_CHART,
    "lineSmoothness": 0,
    "scaleType": "linear",
    "xAxisScaleType": "linear",
    "xAxisKey": "step",
    "selectedXAxisMetricKey": "",
    "yAxisKey": "metric",
    "useGlobalXaxisKey": True,
    "useGlobalLineSmoothing": True,
}
LOOKS: dict[str, dict[str, Any]] = {
    **{key: {"scaleType": "log"} for key in ("val/loss", "val/bpb", "train/loss")},
    "position/val_loss": {"scaleType": "log", "xAxisScaleType": "log", "useGlobalXaxisKey": False},
}


@dataclass(frozen=True)
class View:
    """What the experiment's page shows apart from the runs."""

    note: str
    state: str
    board: str
    """Which results the report last wrote; empty where there are none."""

    @classmethod
    def of(cls, edition: Edition, setting: Setting) -> Self:
        board = Board.read(edition.path)
        told = board.digest(edition.path) if board else ""
        return cls(note(edition, board), json.dumps(state(edition, setting)), told)

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]

    def tags(self, links: str) -> dict[str, str]:
        """The experiment's tags; the links lead to its verdicts and its report."""
        return {
            "mlflow.note.content": f"{self.note}\n\n{links}".strip(),
            "mlflow.experimentKind": "custom_model_development",
            **shared(self.state),
        }


def note(edition: Edition, board: Board | None) -> str:
    """The answer and the table as the report last wrote them; until then, the question."""
    description = edition.description()
    words = [word for word in ("question", "hypothesis") if description.get(word)]
    asked = "\n\n".join(f"**{word.capitalize()}** {description[word]}" for word in words)
    return clipped(board.note if board else asked, LONGEST_NOTE)


def state(edition: Edition, setting: Setting) -> dict[str, Any]:
    """The UI's own state: all runs shown, grouped by arm, our sections in our order, the second half enlarged."""
    params = [f"params.`{short}`" for short in setting.varied.names.values()]
    enlarged, titles = list(_enlarged(edition)), {END: f"{_metric(edition)}, second half"}
    first, *others = SECTIONS
    sections = [first, *([END] if enlarged else []), *others]
    whole = {
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": setting.grouping}]},
        "useGroupedValuesInCharts": True,
        "runsHiddenMode": "SHOW_ALL",
        "selectedColumns": [*params, "tags.`seed`", "tags.`status`", *(f"metrics.`{key}`" for key in RESULTS)],
        "orderByKey": "attributes.start_time",
        "orderByAsc": True,
        "isAccordionReordered": True,
        "hideEmptyCharts": True,
        "autoRefreshEnabled": True,
        "compareRunSections": [_section(section, titles.get(section, section)) for section in sections],
        "compareRunCharts": [*enlarged, *_charts()],
    }
    description = edition.description()
    logarithmic = setting.varied.logarithmic
    names = {path: f"log10_{key}" if path in logarithmic else key for path, key in setting.varied.names.items()}
    return of_trials(whole, description, names) if is_sweep(description) else whole


def _metric(edition: Edition) -> str:
    return edition.description().get("metric", "val/loss")


def _section(section: str, title: str) -> dict[str, Any]:
    shown = {"display": section in OPEN, "isReordered": True, "deleted": False, "isGenerated": True}
    return {"uuid": f"labkit-{section}", "name": title, **shown}


def _charts() -> Iterator[dict[str, Any]]:
    for section, keys in SECTIONS.items():
        for key in keys:
            place = {"uuid": f"labkit-{key}", "metricSectionId": f"labkit-{section}", "metricKey": key}
            yield (_BAR if section == "final" else _LINE) | place | LOOKS.get(key, {})


def _enlarged(edition: Edition) -> Iterator[dict[str, Any]]:
    """The second half of the metric's curve, where the arms differ by less than a line's width on the whole one."""
    key = _metric(edition)
    tails = [_second_half(run.metrics().get(key, [])) for run in edition.runs() if run.record()["status"] in FINISHED]
    points = [point for tail in tails for point in tail]
    if not points:
        return
    steps, values = zip(*points, strict=True)
    margin = 0.1 * (max(values) - min(values))
    window = {"xMin": min(steps), "xMax": max(steps), "yMin": min(values) - margin, "yMax": max(values) + margin}
    place = {"uuid": "labkit-enlarged", "metricSectionId": f"labkit-{END}", "metricKey": name(key)}
    yield {**_LINE, **place, "range": window, "isGenerated": False}


def _second_half(curve: list[tuple[int, float]]) -> list[tuple[int, float]]:
    return [(step, value) for step, value in curve if 2 * step >= curve[-1][0] and math.isfinite(value)]
