"""labkit bench, as far as it goes without a GPU."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from labkit.cli import app
from labkit.cli import bench as bench
from labkit.cli.bench import _chosen, _show
from labkit.spec import Mistake
from labkit.tracking.console import Console


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("what", ["kernels", "attention", "train", "traps"])
def test_without_a_gpu_it_says_so(what: str) -> None:
    told = CliRunner().invoke(app, ["bench", what])
    assert told.exit_code == 2
    assert told.stderr == "labkit: bench measures a GPU, and torch sees none here\n"


def test_an_unknown_name_is_met_with_the_nearest() -> None:
    with pytest.raises(Mistake, match=r"--only: there is no '14M'\. Did you mean"):
        _chosen("--only", "124M, 14M", ["124M", "13M"])
    assert _chosen("--only", "", ["124M", "13M"]) == ["124M", "13M"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "--with", "labkt"], "--with: there is no 'labkt'"),
        (["train", "--mode", "quick"], "--mode: there is no 'quick'"),
        (["traps", "--only", "ofsets"], "Did you mean 'offsets'"),
        (["kernels", "--peers", "ligar"], "Did you mean 'liger'"),
    ],
)
def test_what_is_not_there_is_told_before_a_gpu_is_asked_for(arguments: list[str], told: str) -> None:
    answer = CliRunner().invoke(app, ["bench", *arguments])
    assert answer.exit_code == 2
    assert told in answer.output


@dataclass
class Row:
    name: str


def test_rows_are_saved_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_machine", lambda: {"device": "some", "torch": "2"})
    file, seen = tmp_path / "rows.json", list[int]()

    def rows():
        for name in ("one", "two"):
            seen.append(len(json.loads(file.read_text())["rows"]))
            yield Row(name)

    _show(Console(), rows(), lambda row: row.name, "name", as_json=False, save=file)
    assert seen == [0, 1]
    assert json.loads(file.read_text()) == {
        "version": bench.VERSION,
        "device": "some",
        "torch": "2",
        "rows": [{"name": "one"}, {"name": "two"}],
    }


def test_a_document_has_no_table_around_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bench, "_machine", dict)
    _show(Console(), [Row("one")], lambda row: row.name, "name", as_json=True, save=None)
    assert json.loads(capsys.readouterr().out) == {"version": bench.VERSION, "rows": [{"name": "one"}]}
