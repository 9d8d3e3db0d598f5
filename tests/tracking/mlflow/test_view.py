"""The UI opens on the question, the answer and the right charts."""

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

from labkit.tracking.mlflow import Board
from labkit.tracking.mlflow.board import LONGEST_NOTE
from labkit.tracking.mlflow.facts import Setting
from labkit.tracking.mlflow.view import View, note
from labkit.tracking.record import Edition


def opened(view: View) -> dict[str, Any]:
    """The state as the UI reads it."""
    packed = view.tags("")["mlflow.sharedViewState.labkit"]
    return json.loads(zlib.decompress(base64.b64decode(packed.removeprefix("deflate;"))))


def test_all_runs_are_shown_grouped_with_their_results(make: Callable[..., Edition]) -> None:
    edition = make()
    state = opened(View.of(edition, Setting.of(edition)))
    assert state["groupBy"]["groupByKeys"] == [{"mode": "tag", "groupByData": "variant"}]
    assert state["runsHiddenMode"] == "SHOW_ALL"
    assert state["selectedColumns"][0] == "params.`theta`"
    assert {"metrics.`final/val_loss`", "metrics.`final/val_bpb`"} <= set(state["selectedColumns"])
    assert state["compareRunCharts"][0]["metricKey"] == "val/loss"


def test_every_chart_has_its_section(make: Callable[..., Edition]) -> None:
    edition = make()
    state = opened(View.of(edition, Setting.of(edition)))
    sections = {section["uuid"] for section in state["compareRunSections"]}
    assert {chart["metricSectionId"] for chart in state["compareRunCharts"]} == sections


def test_the_second_half_of_the_metric_is_enlarged_once_a_run_is_finished(edition: Edition) -> None:
    (run,) = edition.runs()
    for step, loss in ((10, 5.0), (20, 2.0), (30, 1.5), (40, 1.0)):
        run.append(step, {"val/loss": loss})
    setting = Setting.of(edition)
    state = opened(View.of(edition, setting))
    assert not any("range" in chart for chart in state["compareRunCharts"])
    assert "val/loss, second half" not in [section["name"] for section in state["compareRunSections"]]
    run.update(status="done")
    state = opened(View.of(edition, setting))
    (enlarged,) = [chart for chart in state["compareRunCharts"] if "range" in chart]
    section = state["compareRunSections"][1]
    assert (section["name"], section["uuid"]) == ("val/loss, second half", enlarged["metricSectionId"])
    assert enlarged["range"] == {"xMin": 20, "xMax": 40, "yMin": 0.9, "yMax": 2.1}


def test_the_note_is_the_question_until_there_is_a_report(edition: Edition) -> None:
    assert note(edition, None) == "**Question** Does theta matter?"
    assert note(edition, Board("x", "the answer", (), ())) == "the answer"


def test_a_long_note_is_cut(edition: Edition) -> None:
    cut = note(edition, Board("x", "a line\n" * 9999, (), ()))
    assert len(cut) == LONGEST_NOTE
    assert cut.endswith("…")
