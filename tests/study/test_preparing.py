"""Data prepared in a child: the same store, the same mistakes, and an end at once when it is interrupted."""

import os
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from labkit.data import prepare
from labkit.spec import Mistake
from labkit.study import preparing
from labkit.study.loading import load
from labkit.study.preparing import prepare_apart
from labkit.tracking.progress import Progress
from labkit.train.run import RunSpec


class Shown(Progress):
    """What was shown."""

    def __init__(self) -> None:
        self.tasks: dict[str, float] = {}

    @contextmanager
    def task(self, description: str, total: float | None = None, unit: str = "") -> Generator[Callable[[float], None]]:
        def advance(amount: float) -> None:
            self.tasks[description] += amount

        self.tasks[description] = 0.0
        yield advance


@pytest.fixture
def spec(project: Path) -> RunSpec:
    return load(project / "experiments" / "theta.py").experiment.baseline


def test_the_store_is_the_one_that_prepare_makes_and_progress_is_shown(
    project: Path, spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "empty"))
    shown = Shown()
    store = prepare_apart(spec, project / "experiments", shown)
    assert store.hash == prepare(spec.data, spec.tokenizer, project / "experiments").hash
    assert shown.tasks["tokenizing the train split"] > 0


def test_further_validation_sets_come_along(project: Path, spec: RunSpec) -> None:
    also = {"again": spec.data.corpus.as_json()}
    store = prepare_apart(spec.patched({"evaluation.also": also}), project / "experiments", Progress())
    assert store.also["again"].split.n_bytes == store.train.n_bytes + store.val.n_bytes
    assert store.identity != store.hash


def test_a_mistake_in_the_data_is_one_here(project: Path, spec: RunSpec) -> None:
    with pytest.raises(Mistake, match="nowhere"):
        prepare_apart(spec.patched({"data.corpus.path": "nowhere"}), project / "experiments", Progress())


def test_an_error_of_a_library_is_one_line_here_and_its_traceback_comes_along(
    project: Path, spec: RunSpec, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: Any) -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(preparing, "prepare", failing)
    with pytest.raises(Mistake) as caught:
        prepare_apart(spec, project / "experiments", Progress())
    assert str(caught.value).endswith(": RuntimeError: no such luck")
    assert "in failing" in caught.value.__notes__[0]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_does_not_wait_for_a_library(
    project: Path, spec: RunSpec, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def slow(*_: Any) -> None:
        time.sleep(30)

    monkeypatch.setattr(preparing, "prepare", slow)
    before = signal.signal(number, signal.default_int_handler)
    threading.Timer(0.5, lambda: os.kill(os.getpid(), number)).start()
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            prepare_apart(spec, project, Progress())
    finally:
        signal.signal(number, before)
    assert time.monotonic() - begun < 5
