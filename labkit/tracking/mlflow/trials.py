"""How MLflow's UI opens on a sweep: every trial by itself, parallel coordinates first, then each number."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labkit.tracking.mlflow.params import name

SECTIONS = {"trials": 1, "choices": 2}
"""Of the charts: all trials at once, over the whole width, and each choice by itself; so many in a row."""
_CHART = {"deleted": False, "isGenerated": False, "runsCountToCompare": 100}


def is_sweep(description: Mapping[str, Any]) -> bool:
    """Whether an edition holds trials, each with choices of its own, instead of arms over seeds."""
    return description.get("kind") == "sweep"


def of_trials(state: Mapping[str, Any], description: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The view of an experiment turned into one of trials; `names` are the parameters' by their paths."""
    objectives = [_final(key) for key, _ in description["objectives"]]
    params = [name(short) for short in names.values()]
    shown = {"display": True, "isReordered": True, "deleted": False, "isGenerated": True}
    sections = [
        {"uuid": f"labkit-{one}", "name": one, "columns": columns, **shown} for one, columns in SECTIONS.items()
    ]
    tags = ["tags.`trial`", "tags.`status`"]
    return {
        **state,
        "groupBy": None,
        "useGroupedValuesInCharts": False,
        "selectedColumns": [*tags, *(f"metrics.`{key}`" for key in objectives), *(f"params.`{key}`" for key in params)],
        "orderByKey": f"metrics.`{objectives[0]}`",
        "orderByAsc": description["objectives"][0][1] == "minimize",
        "compareRunSections": [*sections, *state["compareRunSections"]],
        "compareRunCharts": [
            *_charts(_shared(description, names), objectives, _numbers(description, names)),
            *state["compareRunCharts"],
        ],
    }


def _charts(params: Sequence[str], objectives: Sequence[str], numbers: Sequence[str]) -> Iterator[dict[str, Any]]:
    chart = {"type": "PARALLEL", "uuid": "labkit-parallel", "metricSectionId": "labkit-trials", "showAllRuns": False}
    yield {**_CHART, **chart, "selectedParams": list(params), "selectedMetrics": list(objectives)}
    for key in numbers:
        yield _scatter(f"labkit-by-{key}", {"key": key, "type": "PARAM"}, objectives[0])
    if len(objectives) > 1:
        yield _scatter("labkit-front", {"key": objectives[1], "type": "METRIC"}, objectives[0])


def _scatter(uuid: str, across: Mapping[str, str], up: str) -> dict[str, Any]:
    axes = {"xaxis": across, "yaxis": {"key": up, "type": "METRIC"}}
    return {**_CHART, "type": "SCATTER", "uuid": uuid, "metricSectionId": "labkit-choices", **axes}


def _shared(description: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """The parameters of every trial: parallel coordinates leave out a run that has not all of them."""
    varied = [arm["varied"] for arm in description["arms"] if arm["varied"]]
    return [name(short) for path, short in names.items() if all(path in values for values in varied)]


def _numbers(description: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """The parameters that are numbers wherever a trial has them."""
    values: dict[str, list[Any]] = {}
    for arm in description["arms"]:
        for path, value in arm["varied"].items():
            values.setdefault(path, []).append(value)
    return [name(names[path]) for path, found in values.items() if all(type(one) in (int, float) for one in found)]


def _final(key: str) -> str:
    """An objective's name among MLflow's metrics; a size of the model is none of them."""
    return name("final/" + key.replace("/", "_"))
