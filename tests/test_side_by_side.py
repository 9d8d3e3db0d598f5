"""Runs side by side in one worker: each is what it would be alone, whatever becomes of the others."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.components import Norm
from labkit.tracking.record import Run
from labkit.tracking.source import capture
from labkit.train.run import Runtime
from labkit.worker import Paths, Worker
from tests.specs import TINY

LITTLE = {
    **TINY,
    "model": {**TINY["model"], "d_model": 8, "n_layers": 1, "dropout": 0.1},
    "batch_size": 2,
    "evaluation": {"points": 4, "windows": 4},
}
NORMS = '''
from typing import Literal

import torch
from torch import nn

from labkit.components import Norm


class Noisy(Norm):
    """x with noise of torch's own."""

    kind: Literal["noisy"] = "noisy"

    def build(self, width, place):
        return Noise()


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x) / 100


class Failing(Norm):
    """Raises an error once, when it is called for the fifth time."""

    kind: Literal["failing"] = "failing"
    error: str

    def build(self, width, place):
        return Fails(getattr(torch, self.error, RuntimeError))


class Fails(nn.Module):
    failed = calls = 0

    def __init__(self, error):
        super().__init__()
        self.error = error

    def forward(self, x):
        Fails.calls += 1
        if Fails.calls >= 15 and not Fails.failed:
            Fails.failed = 1
            raise self.error("as it was meant to")
        return x
'''
DIVERGES = {"optimizer": {"kind": "adamw", "lr": 1e30}, "clip": None, "schedule": {"kind": "cosine", "warmup": 0}}


@pytest.fixture(autouse=True)
def _kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A corpus; what loading a user's file leaves is taken back."""
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(Norm, "variants", Norm.variants.copy())
    (tmp_path / "text.txt").write_text("".join(f"{n * n} is the square of {n}.\n" for n in range(300)))
    yield
    sys.modules.pop("norms_of_mine", None)


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Run]:
    def planned(name: str, norm: Any = "rms", **changes: Any) -> Run:
        run, root = Run(tmp_path / name), tmp_path / "project"
        root.mkdir(exist_ok=True)
        (root / "norms_of_mine.py").write_text(NORMS)
        hashes = capture(run.source, {"norms_of_mine.py": root / "norms_of_mine.py"})
        spec = {**LITTLE, "model": {**LITTLE["model"], "norm": norm}, **changes}
        run.create(spec, {"base": str(tmp_path), "sources": hashes})
        return run

    return planned


class Hearing(Worker):
    """Remembers what it answers; `when` may do something at each answer."""

    def __init__(self, when: Callable[["Hearing", dict[str, Any]], None] = lambda *_: None, **runtime: Any) -> None:
        self.said: list[dict[str, Any]] = []

        def hear(told: dict[str, Any]) -> None:
            self.said.append(told)
            when(self, told)

        super().__init__(Runtime(**{"device": "cpu", "side_by_side": 4, **runtime}), hear)

    def train_all(self, *runs: Run) -> dict[str, str]:
        """The statuses by the names of the runs, as of a fresh process."""
        sys.modules.pop("norms_of_mine", None)
        sys.path[:] = [folder for folder in sys.path if not folder.endswith("source")]
        for kind in ("noisy", "failing"):
            Norm.variants.pop(kind, None)
        self.work(Paths(run.path for run in runs))
        return {Path(told["run"]).name: told["status"] for told in self.said if "run" in told}


def exact(run: Run) -> dict[str, Any]:
    """All that a run must repeat to the last digit."""
    final = {key: value for key, value in run.record()["final"].items() if not key.startswith("perf/")}
    curves = {key: points for key, points in run.metrics().items() if not key.startswith("perf/")}
    weights = (run.checkpoints / "final.safetensors").read_bytes()
    return {"final": final, "by_position": run.record()["by_position"], "weights": weights, **curves}


def test_each_is_what_it_is_alone_bit_for_bit(plan) -> None:
    specs: dict[str, dict[str, Any]] = {
        "a": {},
        "b": {"seed": 1, "norm": "noisy"},
        "c": {"seed": 1, "batch_size": 4, "budget": {"kind": "steps", "steps": 20}},
        "d": {"norm": "noisy"},
    }
    beside = [plan(name, **changes) for name, changes in specs.items()]
    alone = [plan(f"{name} alone", **changes) for name, changes in specs.items()]
    assert set(Hearing().train_all(*beside).values()) == {"done"}
    for run in alone:
        Hearing(side_by_side=1).train_all(run)
    assert [exact(run) for run in beside] == [exact(run) for run in alone]


def test_the_record_and_the_log_of_each_say_how_it_was_trained(plan) -> None:
    runs = [plan("a"), plan("b", seed=1), plan("c", seed=2, budget={"kind": "steps", "steps": 20})]
    Hearing().train_all(*runs)
    for run in runs:
        assert run.record()["side_by_side"] == 3
        assert run.record()["notes"][0].startswith("speed: trained side by side")
        assert run.console_log.read_text().count("from step 0 of") == 1


def test_answers_come_as_runs_end_and_others_take_their_place(plan) -> None:
    long, *short = (
        plan(name, budget={"kind": "steps", "steps": steps}) for name, steps in {"a": 30, "b": 3, "c": 3}.items()
    )
    assert list(Hearing(side_by_side=2).train_all(long, *short)) == ["b", "c", "a"]
    assert {run.record()["side_by_side"] for run in (long, *short)} == {2}


def test_one_that_fails_or_diverges_does_not_hurt_its_neighbours(plan) -> None:
    runs = [plan("a"), plan("b", norm={"kind": "failing", "error": "-"}), plan("c", **DIVERGES), plan("d", seed=1)]
    alone = plan("d alone", seed=1)
    statuses = Hearing().train_all(*runs)
    assert statuses == {"a": "done", "b": "failed", "c": "diverged", "d": "done"}
    assert runs[1].record()["error"] == "RuntimeError: as it was meant to"
    assert "Traceback" in runs[1].console_log.read_text()
    assert "Traceback" not in runs[0].console_log.read_text()
    Hearing().train_all(alone)
    assert exact(runs[3]) == exact(alone)


def test_a_stop_file_pauses_its_own_run(plan) -> None:
    runs = [plan("a"), plan("b")]
    runs[1].request_stop()
    assert Hearing().train_all(*runs) == {"b": "paused", "a": "done"}
    assert not runs[1].stop_requested


def test_all_are_paused_together_and_go_on_to_the_same_bits(plan) -> None:
    long = {"budget": {"kind": "steps", "steps": 40}}
    runs, alone = [plan("a", **long), plan("b", norm="noisy", **long)], [plan("A", **long), plan("B", "noisy", **long)]
    short = plan("short", budget={"kind": "steps", "steps": 7})

    def leave(worker: Hearing, told: dict[str, Any]) -> None:
        if told.get("run", "").endswith("short"):
            worker.leaving.set()

    assert Hearing(leave).train_all(*runs, short) == {"short": "done", "a": "paused", "b": "paused"}
    assert all(0 < run.record()["step"] < 40 for run in runs)
    assert Hearing().train_all(*runs) == {"a": "done", "b": "done"}
    Hearing(side_by_side=1).train_all(*alone)
    assert [exact(run) for run in runs] == [exact(run) for run in alone]


def test_one_without_room_in_memory_waits_for_its_neighbours(plan) -> None:
    runs = [plan("a"), plan("b", norm={"kind": "failing", "error": "OutOfMemoryError"}), plan("c")]
    worker = Hearing()
    assert worker.train_all(*runs) == {"a": "done", "c": "done", "b": "done"}
    assert {"room": 2} in worker.said
    assert "OutOfMemoryError" in runs[1].console_log.read_text()


def test_alone_it_fails_for_want_of_memory(plan) -> None:
    run = plan("a", norm={"kind": "failing", "error": "OutOfMemoryError"})
    assert Hearing().train_all(run) == {"a": "failed"}
    assert run.record()["error"].startswith("out of memory: give --micro-batch")


def test_a_run_with_other_sources_lets_the_others_end(plan, tmp_path: Path) -> None:
    runs = [plan("a"), plan("b"), plan("c")]
    record = json.loads((runs[1].path / "record.json").read_text())
    (runs[1].path / "record.json").write_text(json.dumps({**record, "sources": {"other.py": "0"}}))
    worker = Hearing(side_by_side=2)
    assert worker.train_all(*runs) == {"b": "reload", "a": "done"}
    assert worker.said[0] == {"room": 2}
    assert worker.said[1] == {"room": 0}


def test_on_a_cpu_there_is_one_at_a_time_unless_more_are_asked_for(plan) -> None:
    worker = Hearing(side_by_side="auto")
    runs = [plan("a"), plan("b")]
    assert worker.train_all(*runs) == {"a": "done", "b": "done"}
    assert [run.record()["side_by_side"] for run in runs] == [1, 1]
    assert [told for told in worker.said if "room" in told] == []
