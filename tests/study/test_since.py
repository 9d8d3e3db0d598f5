"""What became of an experiment's file since it was run."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from labkit.cli import app
from labkit.study.counting import QUIET
from labkit.study.editions import Asked, edition
from labkit.study.finding import changed_file
from labkit.study.loading import load
from labkit.study.runner import Options, Runner
from labkit.study.since import since
from labkit.tracking.console import Console
from labkit.tracking.record import Edition
from labkit.train.run import Runtime


@pytest.fixture
def ran(project: Path, monkeypatch: pytest.MonkeyPatch) -> Edition:
    """The experiment theta, with every run planned."""
    monkeypatch.chdir(project)
    loaded, name = edition(load(project / "experiments" / "theta.py"), Asked())
    runner = Runner(loaded, name, Options(project / "runs", Runtime(device="cpu"), "labkit run"), Console())
    runner.prepare()
    runner.planner.describe(runner.arms, "labkit run")
    for job in runner.jobs:
        runner.planner.plan(job, runner.store(job))
    return runner.edition


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("", "", ""),
        ("experiment = ", "# a remark\nexperiment = ", ""),
        ("5e5]", "5e5, 7e5, 9e5]", "theta=700000 and theta=900000 have not been run"),
        ("5e5]", "9e5]", "theta=900000 has not been run; theta=500000 is no longer in it"),
        (
            "baseline=pico",
            "baseline=pico.patched({'clip': 2.0})",
            "baseline, theta=1000 and theta=500000 are written o",
        ),
        ("baseline=pico", "baseline=", "it cannot be read now: experiments/theta.py:12: SyntaxError: invalid syntax"),
    ],
)
def test_what_a_file_has_otherwise_than_its_records_is_told_in_a_line(
    ran: Edition, project: Path, old: str, new: str, told: str
) -> None:
    file = project / "experiments" / "theta.py"
    file.write_text(file.read_text().replace(old, new))
    del sys.modules["experiments.theta"]
    assert changed_file("theta", ran) == changed_file(str(file), ran) == (file if new else None)
    line = since(ran, file, QUIET)
    assert "\n" not in line
    assert line.startswith(f"experiments/theta.py has changed since it was run: {told}" if told else "")
    assert bool(line) == bool(told)


def test_of_an_edition_only_the_names_can_differ(ran: Edition, project: Path) -> None:
    other = Edition(ran.path.parent / "clip=2")
    told = ran.description()
    other.describe({**told, "edition": "clip=2", "arms": [{**told["arms"][0], "fingerprint": "ab" * 8}]})
    line = since(other, project / "experiments" / "theta.py", QUIET)
    assert line.endswith("since it was run: theta=1000 and theta=500000 have not been run")


def test_a_report_and_a_table_say_it_on_standard_error(ran: Edition, project: Path) -> None:
    file = project / "experiments" / "theta.py"
    file.write_text(file.read_text().replace("5e5", "9e5"))
    for words in (["report", "theta"], ["table", str(file)]):
        sys.modules.pop("experiments.theta", None)
        told = CliRunner().invoke(app, words)
        assert told.exit_code == 0, told.output
        assert "theta=900000 has not been run" in told.stderr
        assert "theta=900000" not in told.stdout
