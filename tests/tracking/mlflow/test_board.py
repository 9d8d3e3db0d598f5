"""A board's experiment shows its rows, each once, and leads back to the curves."""

import json
import math
import zlib
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run as Shown

from labkit.tracking.mlflow import Board, Row, pending, publish, sync
from labkit.tracking.record import Edition

Make = Callable[..., Board]


@pytest.fixture
def board(tmp_path: Path, request: pytest.FixtureRequest) -> Board:
    """Two rows and a report, in `tmp_path`."""
    rows = [
        Row(
            "baseline", "gelu*", 1000.0, {"verdict": "baseline"}, {"val/loss": 2.0, "delta": math.nan}, ("variant", "x")
        ),
        Row("swiglu", "swiglu", 1010.0, {"verdict": "WIN"}, {"val/loss": 1.9, "delta": -0.1}, ("variant", "swi glu")),
    ]
    (tmp_path / "report.html").write_text("<h1>gelu</h1>")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "forest.svg").write_text("<svg/>")
    files = ("report.html", "figures/forest.svg")
    return Board(f"{request.node.name}/verdicts", "**WIN**", ["params.verdict", "metrics.delta"], rows, files)


def shown(board: Board, uri: str) -> dict[str, Shown]:
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(board.title)
    assert experiment is not None
    return {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}


def tags_of(board: Board, uri: str) -> dict[str, str]:
    experiment: Any = MlflowClient(uri).get_experiment_by_name(board.title)
    return experiment.tags


def test_a_row_is_a_finished_flat_run_with_words_and_figures(board: Board, uri: str, tmp_path: Path) -> None:
    publish(board, tmp_path, uri, "7")
    run = shown(board, uri)["swiglu"]
    assert run.data.params == {"verdict": "WIN"}
    assert run.data.metrics == {"val/loss": 1.9, "delta": -0.1}
    assert (run.info.status, run.info.start_time) == ("FINISHED", 1_010_000)
    assert "mlflow.parentRunId" not in run.data.tags
    assert "#/experiments/7/runs?" in run.data.tags["mlflow.note.content"]
    assert "swi%20glu" in run.data.tags["mlflow.note.content"]


def test_what_is_not_finite_is_left_out(board: Board, uri: str, tmp_path: Path) -> None:
    publish(board, tmp_path, uri, "7")
    assert shown(board, uri)["gelu*"].data.metrics == {"val/loss": 2.0}


def test_files_hang_on_the_first_row_and_the_note_leads_to_them_and_to_the_curves(
    board: Board, uri: str, tmp_path: Path
) -> None:
    published = publish(board, tmp_path, uri, "7")
    first = published.runs["baseline"]
    client = MlflowClient(uri)
    assert [file.path for file in client.list_artifacts(first)] == ["figures", "report.html"]
    assert [file.path for file in client.list_artifacts(first, "figures")] == ["figures/forest.svg"]
    note = tags_of(board, uri)["mlflow.note.content"]
    assert note.startswith("[The table with its columns]")
    assert note.endswith("**WIN**")
    assert f"runs/{first}/artifacts/report.html" in note
    assert "#/experiments/7/runs" in note
    assert f"#/experiments/{published.experiment_id}/runs?workflowType=machine_learning&viewStateShareKey" in note


def test_a_file_that_is_about_to_be_made_anew_is_waited_for(board: Board, uri: str, tmp_path: Path) -> None:
    (tmp_path / "report.html").unlink()
    first = publish(board, tmp_path, uri, "7").runs["baseline"]
    assert [file.path for file in MlflowClient(uri).list_artifacts(first)] == ["figures"]
    (tmp_path / "report.html").write_text("<h1>gelu</h1>")
    publish(board, tmp_path, uri, "7")
    assert [file.path for file in MlflowClient(uri).list_artifacts(first)] == ["figures", "report.html"]


def test_the_table_opens_with_the_columns_that_matter(board: Board, uri: str, tmp_path: Path) -> None:
    publish(board, tmp_path, uri, "7")
    packed = tags_of(board, uri)["mlflow.sharedViewState.labkit"].removeprefix("deflate;")
    state = json.loads(zlib.decompress(b64decode(packed)))
    assert state["selectedColumns"] == ["params.`verdict`", "metrics.`delta`"]


def test_the_same_board_twice_is_the_same_runs(board: Board, uri: str, tmp_path: Path) -> None:
    first = publish(board, tmp_path, uri, "7")
    assert publish(board, tmp_path, uri, "7") == first
    assert len(shown(board, uri)) == 2


def test_another_verdict_replaces_the_row_and_a_row_that_is_gone_goes(board: Board, uri: str, tmp_path: Path) -> None:
    first = publish(board, tmp_path, uri, "7")
    tie = replace(board.rows[1], words={"verdict": "TIE"})
    second = publish(replace(board, rows=[board.rows[0], tie]), tmp_path, uri, "7")
    assert second.runs["baseline"] == first.runs["baseline"]
    assert shown(board, uri)["swiglu"].data.params == {"verdict": "TIE"}
    publish(replace(board, rows=board.rows[:1]), tmp_path, uri, "7")
    assert list(shown(board, uri)) == ["gelu*"]


def test_a_second_run_of_a_row_goes(board: Board, uri: str, tmp_path: Path) -> None:
    published = publish(board, tmp_path, uri, "7")
    MlflowClient(uri).create_run(published.experiment_id, tags={"labkit.row": "swiglu"}, run_name="half told")
    publish(board, tmp_path, uri, "7")
    client = MlflowClient(uri)
    rows = [run.data.tags["labkit.row"] for run in client.search_runs([published.experiment_id])]
    assert sorted(rows) == ["baseline", "swiglu"]


def test_runs_that_are_no_rows_are_left_alone(board: Board, uri: str, tmp_path: Path) -> None:
    published = publish(board, tmp_path, uri, "7")
    MlflowClient(uri).create_run(published.experiment_id, run_name="my own")
    publish(board, tmp_path, uri, "7")
    assert set(shown(board, uri)) == {"gelu*", "swiglu", "my own"}


def test_a_board_is_read_as_it_was_written(board: Board, tmp_path: Path) -> None:
    board.write(tmp_path)
    read = Board.read(tmp_path)
    assert read is not None
    assert (read.title, read.rows[1], read.rows[0].figures) == (board.title, board.rows[1], {"val/loss": 2.0})
    (tmp_path / "board.json").write_text("{")
    assert Board.read(tmp_path) is None


def test_an_edition_is_told_with_its_board(edition: Edition, board: Board, uri: str) -> None:
    (run,) = edition.runs()
    run.update(status="done", ended=1010.0)
    sync(edition, uri)
    assert not pending(edition, uri)
    replace(board, files=()).write(edition.path)
    assert pending(edition, uri)
    sync(edition, uri)
    assert set(shown(board, uri)) == {"gelu*", "swiglu"}
    curves: Any = MlflowClient(uri).get_experiment_by_name(edition.title)
    assert f"[{board.title}](#/experiments/" in curves.tags["mlflow.note.content"]
    assert f"#/experiments/{curves.experiment_id}/runs" in tags_of(board, uri)["mlflow.note.content"]
    assert not pending(edition, uri)
