"""The figures of a machine as a page shows them."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from labkit.bench.attention import SHAPES
from labkit.bench.kernels import NAMES
from labkit.bench.setups import SETUPS
from labkit.bench.shown import FIGURES, _count, table
from labkit.cli import app
from labkit.tracking.atomic import read_json, write_json


def row(name: str, mode: str | None, ratio: float, speed: float, first: float) -> dict[str, Any]:
    given = {"setup": "124M", "name": name, "mode": mode, "above_floor": ratio, "tokens_per_s": speed}
    return {**given, "beside_best": 1.25 / ratio, "first_step": first, "memory": 14.44}


ROWS = [
    row("labkit", "exact", 1.10, 600_100.0, 0.31),
    row("labkit", "fast", 1.05, 640_000.0, 0.3),
    row("compile", None, 1.25, 530_000.0, 24.4),
    row("liger", None, 1.9, 376_000.0, 3.0),
    row("torch", "exact", 1.2, 560_000.0, 1.0),
]


def test_a_line_sets_both_modes_beside_the_best_peer() -> None:
    assert cells(table({"rows": ROWS}), 2) == [
        "124M", "32k", "600k", "640k", "compile 530k", "1.14, 1.19", "1.10, 1.05", "0.3 s, 24 s", "14.4, 14.4",
    ]  # fmt: skip


def test_a_model_without_a_peer_has_no_line() -> None:
    assert len(table({"rows": ROWS[:2]}).splitlines()) == 2


@pytest.mark.parametrize(
    ("number", "text"), [(999.4, "999"), (8192, "8.19k"), (84_213, "84.2k"), (4.347e6, "4.35M"), (1.04e9, "1.04B")]
)
def test_counts_have_three_digits(number: float, text: str) -> None:
    assert _count(number) == text


@pytest.mark.parametrize("figures", FIGURES, ids=lambda file: file.stem)
def test_the_page_shows_the_figures_that_are_committed(figures: Path) -> None:
    found = read_json(figures)
    assert "H200" in found["device"]
    assert table(found) in (FIGURES[0].parents[3] / "README.md").read_text()


def test_all_models_and_shapes_are_in_the_figures_that_are_committed() -> None:
    lines = {file.stem: len(table(read_json(file)).splitlines()) - 2 for file in FIGURES}
    assert lines["train"] == len(SETUPS)
    assert lines["attention"] == len(SHAPES)
    assert lines["kernels"] >= len(NAMES)


def cells(text: str, line: int) -> list[str]:
    return [cell.strip() for cell in text.splitlines()[line].strip("| ").split("|")]


def test_attention_is_told_by_shape_with_who_differs() -> None:
    rows = [
        {"shape": "B 2", "name": name, "both": both, "differing": differing}
        for name, both, differing in (("labkit", 0.607, 0), ("cudnn", 0.675, 20), ("labkit, softcap", 0.9, 0))
    ]
    assert cells(table({"rows": rows}), 2) == ["B 2", "0.61", "0.68 (20 of 20 differ)", "–", "–"]


def test_an_operation_is_told_over_its_sizes() -> None:
    rows = [
        {"op": "rms_norm", "copy": 8.0, "both": {"labkit": 10.0, "torch": 20.0, "liger": 15.0}},
        {"op": "rms_norm", "copy": 9.0, "both": {"labkit": 10.0, "torch": 31.0}},
        {"op": "rope", "copy": 9.0, "both": {"torch": 1.0}},
    ]
    text = table({"rows": rows})
    assert cells(text, 2) == ["rms_norm", "2", "80% to 90%", "2.0 to 3.1", "–", "1.5"]
    assert len(text.splitlines()) == 3


def test_a_file_of_figures_is_shown_and_another_refused(tmp_path: Path) -> None:
    file = tmp_path / "train.json"
    for rows, code, text in ((ROWS, 0, "compile 530k"), ([], 2, "no figures of `labkit bench train`")):
        write_json(file, {"device": "H200", "date": "2026-11-30", "torch": "2.11", "triton": "3.6", "rows": rows})
        told = CliRunner().invoke(app, ["bench", "page", str(file)])
        assert told.exit_code == code
        assert text in " ".join(told.output.split())


@pytest.mark.parametrize("damaged", ['{"rows": 3}', '{"rows": [1]}', '{"rows": [{"above_floor": 1}]}', "{}", "[]", "{"])
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, damaged: str) -> None:
    (tmp_path / "train.json").write_text(damaged)
    told = CliRunner().invoke(app, ["bench", "page", str(tmp_path / "train.json")])
    assert (told.exit_code, "train.json" in "".join(told.output.split())) == (2, True)
