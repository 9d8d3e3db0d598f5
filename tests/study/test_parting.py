"""What two runs on disk differ in."""

import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from labkit.cli import app
from labkit.spec import Mistake
from labkit.study.parting import Change, parted
from labkit.tracking.record import Run

SPEC = {"model": {"norm": {"kind": "rms", "eps": 1e-6}, "d_model": 8}, "seed": {"data": 0}}
LOSSES = [5.0, 4.5, 4.25, math.nan]


def made(folder: Path, spec: dict[str, Any], losses: list[float], **record: Any) -> Run:
    run = Run(folder)
    run.create(spec, {"variant": folder.name, "arm": "0", "fingerprint": "0", "seed_index": 0})
    run.update(status="done", device="cpu", **record)
    for step, loss in enumerate(losses):
        run.append(step + 1, {"train/loss": loss})
    return run


def test_a_run_does_not_differ_from_its_repetition(tmp_path: Path) -> None:
    found = parted(*(made(tmp_path / name, SPEC, LOSSES, final={"val/loss": 4.0}) for name in ("a", "b")))
    assert (found.spec, found.facts, found.final) == ([], [], [])
    assert next((curve.key, curve.step, curve.common) for curve in found.curves) == ("train/loss", None, 4)


def test_what_the_curves_are_without_is_told(tmp_path: Path) -> None:
    here, there = (made(tmp_path / name, SPEC, LOSSES) for name in ("a", "b"))
    file = there.path / "metrics.jsonl"
    file.write_text(file.read_text().replace('{"step": 2', '{"step', 1))
    told = f"{file}: 1 line holds no metrics and is left out"
    assert (parted(here, there).damaged, parted(here, here).damaged) == ([told], [])
    shown = CliRunner().invoke(app, ["diff", str(here.path), str(there.path)])
    assert f"damaged: {told}" in shown.stderr


def test_each_difference_is_named_at_its_path(tmp_path: Path) -> None:
    other = {"model": {"norm": {"kind": "layer", "eps": 1e-5, "bias": True}, "d_model": 8}, "seed": {"data": 0}}
    here = made(tmp_path / "a", SPEC, LOSSES, versions={"torch": "2.11"}, final={"val/loss": 4.0})
    there = made(tmp_path / "b", other, LOSSES, versions={"torch": "2.12"}, final={"val/loss": 3.0, "x": 1.0})
    found = parted(here, there)
    assert found.spec == [
        Change("model.norm", "rms", "layer"),
        Change("model.norm.eps", 1e-6, 1e-5),
        Change("model.norm.bias", None, True),
    ]
    assert found.facts == [Change("versions.torch", "2.11", "2.12")]
    assert found.final == [Change("val/loss", 4.0, 3.0), Change("x", None, 1.0)]


def test_curves_part_at_the_first_step_on_both_records_that_differs_in_any_digit(tmp_path: Path) -> None:
    here = made(tmp_path / "a", SPEC, LOSSES)
    there = made(tmp_path / "b", SPEC, [5.0, 4.5, math.nextafter(4.25, 5), 4.0, 3.0])
    curve = parted(here, there).curves[0]
    assert (curve.step, curve.here, curve.there, curve.common) == (3, 4.25, math.nextafter(4.25, 5), 4)


def test_a_folder_without_a_run_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="this folder holds no run; write"):
        parted(made(tmp_path / "a", SPEC, LOSSES), Run(tmp_path / "b"))
    told = CliRunner().invoke(app, ["diff", str(tmp_path / "a"), str(tmp_path / "b")])
    assert (told.exit_code, "holds no run" in " ".join(told.output.split())) == (2, True)


def test_it_is_told_as_tables(tmp_path: Path) -> None:
    for name, losses in (("a", LOSSES), ("b", [5.0, 4.0])):
        made(tmp_path / name, SPEC, losses)
    told = CliRunner().invoke(app, ["diff", str(tmp_path / "a"), str(tmp_path / "b")], env={"COLUMNS": "400"})
    assert told.exit_code == 0
    assert "spec: the same in both" in told.stdout
    assert next(line.split() for line in told.stdout.splitlines() if "train/loss" in line)[1:] == [
        "2",
        "4.5",
        "4",
        "2",
    ]


@pytest.mark.parametrize(
    ("here", "there", "told"),
    [
        (4.243873758283286, 3.2338390764083367, ["4.24387", "3.23384"]),
        (4.25, math.nextafter(4.25, 5), ["4.25", "4.250000000000001"]),
        (4.2500001, 4.2500002, ["4.2500001", "4.2500002"]),
        (43103.81420791381, None, ["43103.8", "-"]),
    ],
)
def test_a_number_has_the_digits_that_tell_it_from_the_other(
    tmp_path: Path, here: float, there: float | None, told: list[str]
) -> None:
    for name, value in (("a", here), ("b", there)):
        made(tmp_path / name, SPEC, LOSSES, final={"x": value})
    shown = CliRunner().invoke(app, ["diff", str(tmp_path / "a"), str(tmp_path / "b")], env={"COLUMNS": "400"})
    assert next(line.split() for line in shown.stdout.splitlines() if line.startswith(" x "))[1:] == told
