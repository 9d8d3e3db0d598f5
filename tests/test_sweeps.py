"""The sweeps that ship: their files are whole, and what they search is there."""

from pathlib import Path

import pytest

from labkit.study.runner import Options
from labkit.sweep.loading import load_sweep
from labkit.sweep.runner import SweepRunner
from labkit.tracking.console import Console
from labkit.train.run import Runtime

FILES = sorted((Path(__file__).parents[1] / "sweeps").glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_shipped_sweep_has_a_question_a_hypothesis_and_a_space(file: Path, tmp_path: Path) -> None:
    found = load_sweep(file)
    assert found.loaded.question.endswith("?")
    assert found.loaded.hypothesis.endswith(".")
    runner = SweepRunner(found, "main", Options(tmp_path, Runtime(device="cpu"), "labkit sweep"), Console())
    assert all(trials > 0 and search.space.every for _, search, trials in runner.searches())


def test_four_sweeps_ship() -> None:
    assert [file.stem for file in FILES] == ["architecture", "lr_by_placement", "pareto", "quick"]
