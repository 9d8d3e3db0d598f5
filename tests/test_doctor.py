"""The doctor finds what is missing, says what to do, and never falls ill itself."""

import os
from pathlib import Path

import pytest

from labkit import doctor
from labkit.doctor import Check, checks


def found(name: str, runs: Path) -> Check:
    (check,) = [check for check in checks(runs) if check.name == name]
    return check


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "runs"


def test_everything_a_run_needs_is_looked_at_and_nothing_is_left_behind(runs: Path) -> None:
    names = [check.name for check in checks(runs)]
    versions = ["labkit", "python", "torch", "pydantic", "mlflow", "datasets", "tokenizers"]
    folders = ["runs folder", "runs disk", "cache folder", "cache disk", "token stores", "mlflow store"]
    assert [name for name in names if not name.startswith("gpu")] == [*versions, "cpu", "triton", "compiler", *folders]
    assert any(name.startswith("gpu") for name in names)
    assert list(runs.parent.iterdir()) == []


def test_what_is_well_has_no_remedy_and_what_is_not_has_one(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LITTLE", 2**60)
    seen = checks(runs)
    assert {check.ok for check in seen} >= {True, False}
    assert all(bool(check.remedy) == (check.ok is False) for check in seen)


def test_a_library_that_is_not_installed_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LIBRARIES", ("labkit-no-such-library",))
    check = found("labkit-no-such-library", runs)
    assert (check.ok, check.found) == (False, "not installed")


def test_a_folder_that_takes_no_file_is_named(runs: Path) -> None:
    runs.write_text("a file where the folder should be")
    check = found("runs folder", runs)
    assert check.ok is False
    assert "--runs" in check.remedy


def test_a_full_disk_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LITTLE", 2**60)
    assert "LABKIT_CACHE" in found("cache disk", runs).remedy


def test_the_token_stores_are_counted_with_what_they_take_and_where(runs: Path) -> None:
    folder = runs.parent / "cache" / "stores"
    assert found("token stores", runs) == Check("token stores", None, f"none yet in {folder}")
    for name in ("aa", "bb"):
        (folder / name).mkdir(parents=True)
        (folder / name / "train.bin").touch()
        os.truncate(folder / name / "train.bin", 2**28)
    (folder / "aa.lock").touch()
    check = found("token stores", runs)
    assert check.ok is True
    assert check.found.startswith(f"2 of 0.50 GiB in {folder}")


def test_a_store_that_is_not_there_yet_is_no_fault(runs: Path) -> None:
    assert found("mlflow store", runs).ok is None


def test_a_broken_store_is_a_fault(runs: Path) -> None:
    runs.mkdir()
    (runs / "mlflow.db").write_text("no database" * 100)
    assert found("mlflow store", runs).ok is False


def test_a_check_that_breaks_becomes_a_finding(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise OSError("the driver hangs")

    monkeypatch.setattr(doctor, "_cards", broken)
    check = found("gpu", runs)
    assert check.ok is False
    assert "the driver hangs" in check.found
