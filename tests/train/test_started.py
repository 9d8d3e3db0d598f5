"""A worker is of the labkit that starts it, also where Python would find another one."""

import os
import subprocess
from pathlib import Path

import pytest

from labkit.train import started
from labkit.train.run import Runtime

SAYS = "from pathlib import Path; print(Path(__file__).parent.parent, flush=True)"


@pytest.fixture
def packages(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with a labkit each, whose worker says where it lies."""
    for home in (here := tmp_path / "here", there := tmp_path / "there"):
        (home / "labkit").mkdir(parents=True)
        (home / "labkit" / "__init__.py").touch()
        (home / "labkit" / "worker.py").write_text(SAYS)
    return here, there


def test_a_worker_is_of_the_package_that_starts_it(
    packages: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = packages
    monkeypatch.setenv("PYTHONPATH", str(there))
    monkeypatch.setattr(started, "LABKIT", here / "labkit")
    with started.worker(Runtime(), errors=subprocess.DEVNULL) as process:
        assert process.communicate(timeout=60)[0].strip() == str(here)


def test_what_is_asked_of_the_environment_comes_on_top_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["a", "b"]))
    assert started.pointing_to(tmp_path) == {"PYTHONPATH": os.pathsep.join([str(tmp_path), "a", "b"])}
    monkeypatch.delenv("PYTHONPATH")
    assert started.pointing_to(tmp_path) == {"PYTHONPATH": str(tmp_path)}


def test_what_is_installed_keeps_its_place_behind_pythons_own_library(tmp_path: Path) -> None:
    assert started.pointing_to(tmp_path / "site-packages") == {}
