"""An experiment's records as frames."""

import math
from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.spec import Mistake
from labkit.study.frames import Results, results
from labkit.tracking.record import Edition
from tests.report.conftest import DESCRIPTION, Synthetic


@pytest.fixture
def found(tmp_path: Path) -> Results:
    """A baseline and a variant that is half a nat worse, two seeds each, measured at two steps."""
    experiment = Synthetic(Edition(tmp_path / "runs" / "theta" / "main"), {**DESCRIPTION, "seeds": [0, 1]})
    for name, loss in (("baseline", 2.0), ("1e5", 2.5)):
        experiment.arm(name)
        for seed in range(2):
            experiment.run(name, seed, loss + 0.1 * seed, points=2)
            experiment.at(name, seed).append(75, {"train/loss": loss})
    return results("theta", tmp_path / "runs")


def test_lines_that_hold_no_metrics_are_told_once(
    found: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = found.comparison.outcomes[0].run.path / "metrics.jsonl"
    file.write_text("garbled\n" + file.read_text())
    again = results("theta", tmp_path / "runs")
    assert len(again.curves) == len(found.curves)
    assert " ".join(capsys.readouterr().err.split()) == f"damaged: {file}: 1 line holds no metrics and is left out"


def test_arms_are_told_with_their_differences(found: Results) -> None:
    assert list(found.arms.index) == ["baseline", "1e5"]
    assert found.arms.loc["1e5", "val/loss"] == pytest.approx(2.55)
    assert found.arms.loc["1e5", "difference"] == pytest.approx(0.5)
    assert found.arms[["text_low", "text_high"]].isna().all(axis=None)  # these runs keep nothing by document
    assert list(found.arms["verdict"]) == ["", found.comparison.variants[0].verdict.word.upper()]


def test_runs_are_told_by_arm_and_seed(found: Results) -> None:
    assert list(found.runs.index) == [("baseline", 0), ("baseline", 1), ("1e5", 0), ("1e5", 1)]
    assert found.runs.loc[("1e5", 1), "val/loss"] == pytest.approx(2.6)
    assert (found.runs["status"] == "done").all()
    assert all(Path(path, "record.json").exists() for path in found.runs["path"])


def test_curves_are_told_by_arm_seed_and_step(found: Results) -> None:
    assert list(found.curves.loc[("1e5", 0)].index) == [50, 75, 100]
    assert found.curves.loc[("baseline", 1, 100), "val/loss"] == pytest.approx(2.1)
    assert math.isnan(found.curves.loc[("baseline", 1, 75), "val/loss"])
    assert [arm for arm, *_ in found.curves.index][::6] == ["baseline", "1e5"]


def test_it_is_a_public_word_and_what_was_never_run_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="been run yet"):
        labkit.results("theta", tmp_path)


@pytest.mark.parametrize("target", ["", None, 5])
def test_what_names_no_experiment_is_refused(target: Any) -> None:
    with pytest.raises(Mistake, match="names no experiment"):
        results(target)
