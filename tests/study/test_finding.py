"""Which of several editions and runs is meant, and what is said where another could be."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from labkit.cli import app
from labkit.spec import Mistake
from labkit.study.finding import edition_of, run_of
from labkit.tracking.record import Edition
from tests.report.conftest import DESCRIPTION, Synthetic


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runs of the project that the user stands in."""
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def made(runs: Path, edition: str, **more: str) -> Synthetic:
    experiment = Synthetic(Edition(runs / "theta" / edition), {**DESCRIPTION, "edition": edition, "seeds": [0], **more})
    experiment.arm("baseline")
    experiment.run("baseline", 0)
    return experiment


@pytest.mark.parametrize(
    ("editions", "target", "taken", "told"),
    [
        (["main"], "theta", "main", ""),
        (["main", "steps=20"], "theta", "main", "theta: this is the edition main; there is also theta@steps=20"),
        (["main", "steps=20"], "theta@main", "main", ""),
        (["main", "steps=20"], "theta@steps=20", "steps=20", ""),
        (["steps=20"], "theta", "steps=20", "theta: this is theta@steps=20, the only edition that has been run"),
        (["steps=20"], "theta@steps=20", "steps=20", ""),
        (["main", "small", "steps=20"], "theta", "main", "there are also theta@small, theta@steps=20"),
        ([*"abcde", "main"], "theta", "main", "there are also theta@a, theta@b, theta@c and 2 more"),
    ],
)
def test_what_was_taken_is_said_where_another_could_be_meant(
    runs: Path, editions: list[str], target: str, taken: str, told: str
) -> None:
    for edition in editions:
        made(runs, edition)
    said: list[str] = []
    assert edition_of(target, None, said.append).edition == taken
    assert len(said) == bool(told)
    assert told in "".join(said)


def test_a_file_is_asked_for_as_its_name_is_and_from_elsewhere_with_the_folder(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for edition in ("main", "steps=20"):
        made(runs, edition)
    (tmp_path / "experiments").mkdir()
    file = str(tmp_path / "experiments" / "theta.py")
    said: list[str] = []
    edition_of(file, None, said.append)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path / "elsewhere")
    edition_of(file, None, said.append)
    here = f"{file}: this is the edition main; there is also theta@steps=20"
    assert said == [here, f"{here} (with --runs {runs})"]
    assert edition_of("theta@steps=20", runs).edition == "steps=20"


def test_an_edition_that_was_not_run_is_met_with_how_the_others_are_asked_for(runs: Path) -> None:
    for edition in ("main", "steps=20"):
        made(runs, edition)
    with pytest.raises(Mistake, match=r"'nope' of theta .* there are: theta@main, theta@steps=20$"):
        edition_of("theta@nope", None)


def test_several_editions_without_main_leave_a_choice(runs: Path) -> None:
    for edition in ("small", "steps=20"):
        made(runs, edition)
    with pytest.raises(
        Mistake, match=r"theta: there are several editions; choose from: theta@small, theta@steps=20\.$"
    ):
        edition_of("theta", None)


def test_the_trials_that_an_experiment_was_tuned_by_are_not_meant(runs: Path) -> None:
    made(runs, "steps=20")
    made(runs, "steps=20+tuning", kind="sweep")
    made(runs, "small+tuning", kind="sweep")
    assert edition_of("theta", None).edition == "steps=20"
    assert edition_of("theta@small+tuning", None).edition == "small+tuning"


def test_of_two_runs_of_a_seed_that_of_the_variant_as_it_is_now_is_meant(runs: Path) -> None:
    experiment = made(runs, "main")
    old = experiment.at("baseline", 0)
    experiment.arm("baseline", fingerprint="f" * 16)
    new = experiment.edition.run("baseline", 0, "0" * 16)
    new.create({"kind": "spec"}, {**old.record(), "arm": "f" * 16, "started": 0.0})
    said: list[str] = []
    assert run_of("theta:baseline:0", None, said.append) == new
    assert said == [
        f"theta:baseline:0: this is {new.path.name}, of the variant as it was run last; there is also {old.path}"
    ]


def test_a_run_of_an_edition_is_said_to_be_one(runs: Path) -> None:
    for edition in ("main", "steps=20"):
        made(runs, edition)
    said: list[str] = []
    assert run_of("theta:baseline:0", None, said.append).path.parents[1].name == "main"
    assert run_of("theta@steps=20:baseline:0", None, said.append).path.parents[1].name == "steps=20"
    assert said == ["theta: this is the edition main; there is also theta@steps=20"]


def test_of_two_runs_of_one_edition_it_is_said_once(runs: Path) -> None:
    for edition in ("main", "steps=20"):
        made(runs, edition)
    told = CliRunner().invoke(app, ["diff", "theta:baseline:0", "theta:baseline:0"])
    assert (told.exit_code, told.stderr.count("this is the edition main")) == (0, 1)


def test_a_run_without_a_name_is_told_as_such(runs: Path) -> None:
    with pytest.raises(Mistake, match="'' names no run; write its folder, or experiment:variant:seed"):
        run_of("", None)


def test_a_run_in_the_place_of_an_experiment_is_told_as_one(runs: Path) -> None:
    made(runs, "main")
    with pytest.raises(Mistake, match=r"theta:baseline: this names a variant or a run, .* write theta$"):
        edition_of("theta:baseline", None)


@pytest.mark.parametrize(
    "command", [["diff", "?", "a:b:0"], ["show", "?"], ["export", "?", "out"], ["import", "?"], ["plan", "?.py"]]
)
def test_a_name_longer_than_a_file_may_have_is_a_mistake_that_is_told_in_short(runs: Path, command: list[str]) -> None:
    told = CliRunner().invoke(app, [word.replace("?", "x" * 300) for word in command])
    assert told.exit_code == 2
    assert f"{'x' * 40}…" in told.stderr
    assert "this name is too long for a file; write a shorter one" in told.stderr
    assert len(told.stderr) < 200
