"""What is told of a sweep beside its trials in MLflow."""

import pytest

from labkit.tracking.mlflow import Board
from tests.sweep.conftest import SEARCH, Write, made

pytestmark = pytest.mark.usefixtures("synthetic", "no_drawings")

COMPARE = """
sweep = Sweep(base=pico, scientific={"model.norm": ["rms", "layer"]},
              nuisance={"optimizer.lr": log_uniform(1e-3, 8e-2)}, trials=3,
              minimize="val/loss", mode="compare", seeds=2)
"""


def test_the_summary_of_a_search_is_one_flat_run_with_the_best_spec_and_what_matters(
    write_sweep: Write,
) -> None:
    _, searched = made(write_sweep(SEARCH.replace("trials=8", "trials=20"))).run()
    [branch] = searched.branches
    best, folder = branch.best, searched.edition.path
    assert best is not None
    board = Board.read(folder)
    assert board is not None
    assert board.title == "sweeps.mine/verdicts"
    assert "**Answer** Trial" in board.note
    [row] = board.rows
    assert row.figures["val/loss"] == pytest.approx(best.values[0], abs=1e-5)
    assert row.figures["trials"] == row.figures["trials_done"] == 20
    assert row.figures["importance/lr"] + row.figures["importance/norm"] == pytest.approx(1, abs=1e-4)
    assert row.figures["importance/lr_low"] <= row.figures["importance/lr"] <= row.figures["importance/lr_high"]
    assert row.figures["delta"] < 0
    assert (row.words["norm"], row.words["model.norm"]) == (best.params["model.norm"],) * 2
    assert float(row.words["optimizer.lr"]) == best.params["optimizer.lr"]
    assert row.tags["trial"] == str(best.number)


def test_a_front_has_a_row_a_trial_and_a_comparison_one_an_arm(write_sweep: Write) -> None:
    code = SEARCH.replace('minimize="val/loss"', 'minimize="val/loss", maximize="perf/tokens_per_s"')
    _, searched = made(write_sweep(code, "front.py")).run()
    board = Board.read(searched.edition.path)
    assert board is not None
    assert len(board.rows) > 1
    losses, speeds = ([row.figures[key] for row in board.rows] for key in ("val/loss", "perf/tokens_per_s"))
    assert losses == sorted(losses)
    assert speeds == sorted(speeds)
    _, searched = made(write_sweep(COMPARE)).run()
    board = Board.read(searched.edition.path)
    assert board is not None
    assert [row.tags["variant"] for row in board.rows] == [
        one.branch.folder(one.trial.number) for one in searched.winners
    ]
    assert "The verdict is told by other seeds" in board.note
