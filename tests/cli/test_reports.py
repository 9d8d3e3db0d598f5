"""Results as a table to paste, and side by side."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from labkit.cli import app
from labkit.tracking.record import Edition

Ask = Callable[..., Result]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Two experiments without a run, in `runs`."""
    for name in ("theta", "norms"):
        arm = {"label": "", "baseline": True, "fingerprint": "0" * 16, "changes": {}, "varied": {}}
        sizes = {"params": 10, "non_embedding": 5, "flops_per_token": 1.0, "tokens": 100, "steps": 10}
        told: dict[str, Any] = {"file": "x.py", "command": "labkit run x.py", "question": "Is it?", "hypothesis": ""}
        Edition(tmp_path / "runs" / name / "main").describe(
            {
                **told,
                "metric": "val/loss",
                "match": "none",
                "seeds": [0],
                "arms": [{"name": "baseline", **arm, **sizes}],
            }
        )
    runs = ["--runs", str(tmp_path / "runs")]
    return lambda *words: CliRunner().invoke(app, [*words, *runs])


def test_a_table_is_markdown_or_latex_on_standard_output(ask: Ask) -> None:
    assert ask("table", "theta").stdout.startswith("# theta\n\n**Question** Is it?\n")
    assert "\\begin{tabular}" in ask("table", "theta", "--tex").stdout


def test_a_run_whose_record_is_damaged_is_told_with_what_to_remove(ask: Ask, tmp_path: Path) -> None:
    run = Edition(tmp_path / "runs" / "theta" / "main").run("baseline", 0, "0" * 16)
    run.path.mkdir(parents=True)
    (run.path / "record.json").write_text("{")
    told = ask("show", "theta:baseline:0")
    assert told.exit_code == 2
    assert "record.json cannot be read: Expecting property name" in told.stderr
    assert f"Remove the folder {run.path} to train it again" in told.stderr


def test_one_experiment_is_nothing_to_compare(ask: Ask) -> None:
    told = ask("compare", "theta", "theta")
    assert told.exit_code == 2
    assert "theta theta: name two or more experiments to compare" in told.stderr


def test_two_experiments_stand_side_by_side(ask: Ask) -> None:
    told = ask("compare", "theta", "norms")
    assert told.exit_code == 0, told.output
    assert told.stdout.startswith("theta beside norms\n")
    assert "these arms were not declared against each other: intervals, and no verdict" in told.stdout
    assert "norms:baseline is theta:baseline" in told.stdout


def test_the_version_is_told() -> None:
    told = CliRunner().invoke(app, ["--version"])
    assert (told.exit_code, told.stdout.split()[0]) == (0, "labkit")
