"""What a report leaves on disk: the same for the same records, in every format."""

import subprocess
import sys
from pathlib import Path

import pytest

from labkit.report import files
from labkit.report.files import write
from labkit.spec import Mistake
from labkit.tracking.mlflow import Board
from labkit.tracking.record import Edition

NAMES = ("report.html", "report.md", "report.tex", "board.json")


def contents(folder: Path) -> dict[str, bytes]:
    found = [*(folder / name for name in NAMES), *(folder / "figures").iterdir()]
    return {file.name: file.read_bytes() for file in found}


def test_every_format_lies_beside_the_runs_the_same_bytes_for_the_same_records(pair) -> None:
    write(pair.edition)
    first = contents(pair.edition.path)
    (pair.edition.path / "report.html").unlink()
    write(pair.edition)
    assert contents(pair.edition.path) == first
    assert first["report.md"].startswith(b"# theta\n")
    assert first["report.html"].startswith(b"<!doctype html>")
    assert first["forest.png"].startswith(b"\x89PNG")
    assert first["forest.svg"].startswith(b"<?xml")
    assert {"val.svg", "end.png", "beyond.svg"} <= first.keys()


def test_the_files_are_made_anew_only_for_other_records(pair, monkeypatch) -> None:
    monkeypatch.setattr(files, "pictures", lambda *_: [("old.svg", b"<svg/>")])
    write(pair.edition)
    monkeypatch.setattr(files, "pictures", lambda *_: pytest.fail("drawn again"))
    write(pair.edition)
    monkeypatch.setattr(files, "pictures", lambda *_: [("new.svg", b"<svg/>")])
    pair.at("1e5", 0).append(100, {"val/loss": 1.9})
    write(pair.edition)
    assert [file.name for file in (pair.edition.path / "figures").iterdir()] == ["new.svg"]
    (pair.edition.path / "report.html").unlink()
    write(pair.edition)
    assert "report.html" in contents(pair.edition.path)


def test_a_drawing_that_another_process_is_about_to_put_there_is_left_to_it(pair, monkeypatch) -> None:
    monkeypatch.setattr(files, "pictures", lambda *_: [("one.svg", b"<svg/>")])
    half = pair.edition.path / "figures" / ".two.svg.7.7"
    half.parent.mkdir()
    half.touch()
    write(pair.edition)
    assert half.exists()
    assert half.name not in (pair.edition.path / "board.json").read_text()


def test_a_row_for_mlflow_holds_the_verdict_with_its_figures(pair, monkeypatch) -> None:
    monkeypatch.setattr(files, "pictures", lambda *_: [("forest.png", b"")])
    write(pair.edition)
    board = Board.read(pair.edition.path)
    assert board is not None
    assert board.title == "theta/verdicts"
    baseline, better, _ = board.rows
    assert (baseline.key, baseline.words["verdict"]) == ("baseline", "baseline")
    assert (better.key, better.words["verdict"]) == ("1e5", "WIN")
    assert better.figures["delta"] == pytest.approx(-0.049)
    assert better.figures["seeds"] == 3
    assert "figures/forest.png" in board.files


def test_a_half_finished_experiment_has_every_file(synthetic) -> None:
    experiment = synthetic()
    experiment.arm("baseline")
    experiment.arm("1e5")
    experiment.run("baseline", 0, status="running", step=40, final={})
    experiment.run("1e5", 0, status="planned", final={})
    write(experiment.edition)
    assert b"Nothing to compare yet" in contents(experiment.edition.path)["report.html"]
    assert b"--" in contents(experiment.edition.path)["report.tex"]


def test_a_report_loads_neither_torch_nor_pyplot(pair) -> None:
    script = f"""
import sys
from pathlib import Path
import labkit.report.files as files
assert "matplotlib" not in sys.modules
files.write(files.Edition(Path({str(pair.edition.path)!r})))
print({{"torch", "matplotlib.pyplot", "scipy.stats", "pandas", "rich", "mlflow"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_without_an_experiment_nothing_is_written(tmp_path) -> None:
    with pytest.raises(Mistake):
        write(Edition(tmp_path / "theta" / "main"))
    assert list(tmp_path.iterdir()) == []
