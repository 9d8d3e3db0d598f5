"""A tiny run on a tiny text, and a way to train it."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from labkit.data import Batches, Store, prepare
from labkit.tracking.record import Run
from labkit.train.loop import train
from labkit.train.run import RunSpec, Runtime
from tests.specs import TINY

LARGEST = 1024
"""The longest context of a test here. Those of that length run on a GPU alone, where a shorter text would be seen."""


@dataclass
class Lab:
    """Trains runs in folders of their own."""

    folder: Path
    store: Store
    spec: RunSpec = field(default_factory=lambda: RunSpec.from_json(TINY))
    count: int = 0

    @property
    def batches(self) -> Batches:
        return Batches(self.store.train, self.spec.model.context, self.spec.batch_size, seed=0)

    def plan(self, spec: RunSpec) -> Run:
        self.count += 1
        run = Run(self.folder / str(self.count))
        run.create(spec.as_json(), {"base": str(self.folder), "sources": {}})
        return run

    def train(
        self,
        spec: RunSpec | None = None,
        run: Run | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        **runtime: Any,
    ) -> Run:
        spec = spec or self.spec
        run = run or self.plan(spec)
        train(run, spec, Runtime(**{"device": "cpu", **runtime}), self.store, should_stop)
        return run


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("corpus")
    words = ["the", "cat", "sat", "on", "a", "mat", "while", "rain", "fell", "and", "dog", "ran", "home"]
    chooser = random.Random(0)
    text = "\n".join(" ".join(chooser.choices(words, k=9)) + "." for _ in range(300))
    (folder / "text.txt").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_CACHE", str(folder / "cache"))
        spec = RunSpec.from_json(TINY)
        made = prepare(spec.data, spec.tokenizer, folder)
        assert made.val.n_tokens > LARGEST
        yield made


@pytest.fixture
def lab(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr("os.fsync", lambda _: None)  # no power cut is looked at here
    return Lab(tmp_path, store)


@pytest.fixture
def curves() -> Callable[[Run], dict[str, list[tuple[int, float]]]]:
    """What a run's curves must repeat to the last digit: all of them but speed and memory."""

    def exact(run: Run) -> dict[str, list[tuple[int, float]]]:
        return {key: points for key, points in run.metrics().items() if not key.startswith("perf/")}

    return exact
