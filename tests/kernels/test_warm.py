"""Kernels compiled ahead: what is on disk is taken, the rest is made in children, once each."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from labkit.kernels import warm
from labkit.kernels.warm import Cold, Kiln, Warm, in_children


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Triton's cache, whose kernels are texts."""
    monkeypatch.setattr(warm, "on_disk", lambda key: (tmp_path / key).exists())
    monkeypatch.setattr(warm, "_whole", lambda compile_: compile_())
    return tmp_path


def compiling(disk: Path, key: str) -> Any:
    """What Triton does: read it, or make it; says in which process."""

    def compiled() -> str:
        if not (disk / key).exists():
            (disk / key).write_text(str(os.getpid()))
        return (disk / key).read_text()

    return compiled


def test_each_missing_kernel_is_made_once_in_a_child(disk: Path) -> None:
    (disk / "old").write_text("long ago")
    kiln, taken = Kiln(), dict[str, str]()
    for key in ("a", "b", "old", "a"):
        kiln.submit(key, compiling(disk, key), lambda made, key=key: taken.update({key: made}))
    assert taken == {}
    kiln.fire()
    assert (kiln.count, kiln.compiled, taken["old"]) == (3, 2, "long ago")
    assert len({taken["a"], taken["b"], str(os.getpid())}) == 3


def test_children_work_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})

    def wait(name: str) -> None:
        (tmp_path / name).touch()
        while len(list(tmp_path.iterdir())) < 3:
            time.sleep(0.01)

    in_children([lambda name=name: wait(name) for name in "abc"])
    assert len(list(tmp_path.iterdir())) == 3


def test_a_child_that_fails_or_hangs_leaves_its_kernel_to_the_parent(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, kiln = os.getpid(), Kiln()
    monkeypatch.setattr(warm, "PATIENCE", 0.3)

    def fails() -> str:
        if os.getpid() != parent:
            raise RuntimeError
        return "made here"

    def hangs() -> str:
        while os.getpid() != parent:
            time.sleep(0.01)
        return "made here"

    taken: list[str] = []
    kiln.submit("a", fails, taken.append)
    kiln.submit("b", hangs, taken.append)
    kiln.fire()
    assert taken == ["made here", "made here"]


def test_what_is_on_disk_is_taken_from_there_and_nothing_else_is(disk: Path) -> None:
    (disk / "old").write_text("long ago")
    taken: list[str] = []
    assert Warm().submit("old", compiling(disk, "old"), taken.append) == "long ago"
    assert taken == ["long ago"]
    with pytest.raises(Cold):
        Warm().submit("new", compiling(disk, "new"), taken.append)
