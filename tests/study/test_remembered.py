"""What was timed before is known again, for as long as nothing changes that speed depends on."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from labkit.study import remembered
from labkit.study.executors import Slot
from labkit.study.pace import Pace
from labkit.study.remembered import keep, recall
from labkit.tracking.atomic import write_json
from labkit.train.run import Runtime

PACE = Pace(0.5, 1.0, 10.0, "measured", 2.0)
SHAPES = {"a": ""}
HERE = [Slot(Runtime(device="cpu"), {"OMP_NUM_THREADS": "1"})]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path))
    return tmp_path / "paces"


def test_a_pace_is_recalled_with_its_day_and_other_shapes_are_not() -> None:
    keep(HERE, {"a": PACE}, SHAPES)
    found = recall(HERE, {**SHAPES, "b": ""})
    assert list(found) == ["a"]
    assert replace(found["a"], at=0.0) == replace(PACE, source="remembered")
    assert (datetime.now(UTC) - datetime.fromtimestamp(found["a"].at, UTC)).total_seconds() < 60


@pytest.mark.parametrize(
    "slots",
    [
        HERE * 2,
        [Slot(Runtime(device="cpu"), {"OMP_NUM_THREADS": "2"})],
        [Slot(Runtime(device="cpu", mode="fast"), HERE[0].environment)],
        [Slot(Runtime(device="cpu", kernels="torch"), HERE[0].environment)],
        [Slot(Runtime(device="cuda"), HERE[0].environment)],
    ],
)
def test_another_device_runtime_or_number_of_workers_has_its_own(slots: list[Slot]) -> None:
    keep(HERE, {"a": PACE}, SHAPES)
    assert recall(slots, SHAPES) == {}


def test_another_version_or_host_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    keep(HERE, {"a": PACE}, SHAPES)
    with monkeypatch.context() as patch:
        patch.setattr(remembered, "versions", lambda: {"torch": "another"})
        assert recall(HERE, SHAPES) == {}
    with monkeypatch.context() as patch:
        patch.setattr("socket.gethostname", lambda: "another")
        assert recall(HERE, SHAPES) == {}
    assert recall(HERE, SHAPES)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"version": 1}', '{"version": 1, "step": null}'])
def test_what_cannot_be_read_is_not_remembered(cache: Path, damage: str) -> None:
    keep(HERE, {"a": PACE}, SHAPES)
    (file,) = cache.iterdir()
    file.write_text(damage)
    assert recall(HERE, SHAPES) == {}


def test_a_cache_that_cannot_be_written_only_costs_time(cache: Path) -> None:
    cache.write_text("no folder")
    keep(HERE, {"a": PACE}, SHAPES)
    assert recall(HERE, SHAPES) == {}


def test_another_source_of_a_users_component_is_timed_anew() -> None:
    keep(HERE, {"a": PACE}, {"a": "0123"})
    assert recall(HERE, {"a": "4567"}) == {}
    assert recall(HERE, {"a": "0123"})


@pytest.mark.parametrize("change", [{"step": 0.0}, {"step": -5.0}, {"once": -1.0}, {"at": 1e300}])
def test_figures_that_cannot_be_are_no_pace(cache: Path, change: dict[str, float]) -> None:
    keep(HERE, {"a": PACE}, SHAPES)
    [file] = cache.iterdir()
    write_json(file, {**json.loads(file.read_text()), **change})
    assert recall(HERE, SHAPES) == {}
