"""Captured runs side by side on a GPU: the same bits as alone, streams and memory of their own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from labkit.tracking.record import Run
from labkit.train.lanes import CudaLane, lane
from labkit.train.run import MOST_SIDE_BY_SIDE, Runtime
from labkit.worker import Paths, Worker
from tests.specs import TINY

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

SMALL: dict[str, Any] = {
    **TINY,
    "model": {**TINY["model"], "d_model": 64, "dropout": 0.1},
    "precision": "bf16",
    "budget": {"kind": "steps", "steps": 40},
}
LARGE: dict[str, Any] = {
    **TINY,
    "model": {**TINY["model"], "d_model": 768, "context": 1024, "attention": {"kind": "mha", "n_heads": 12}},
    "precision": "bf16",
    "batch_size": 32,
    "optimizer": {"kind": "adamw", "lr": 1e-3},
    "budget": {"kind": "steps", "steps": 20},
    "evaluation": {"points": 2, "windows": 8, "beyond": ()},
}


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("".join(f"{n * n} is the square of {n}.\n" for n in range(8000)))

    def planned(name: str, spec: dict[str, Any], **changes: Any) -> Run:
        run = Run(tmp_path / name)
        run.create({**spec, **changes}, {"base": str(tmp_path), "sources": {}})
        return run

    return planned


def train(*runs: Run, leave_after: str = "", **runtime: Any) -> list[str]:
    """The statuses in the order of the answers."""
    said: list[dict[str, Any]] = []

    def hear(told: dict[str, Any]) -> None:
        said.append(told)
        if leave_after and told.get("run", "").endswith(leave_after):
            worker.leaving.set()

    worker = Worker(Runtime(device="cuda", **runtime), hear)
    worker.work(Paths(run.path for run in runs))
    return [told["status"] for told in said if "run" in told]


def exact(run: Run) -> dict[str, Any]:
    final = {key: value for key, value in run.record()["final"].items() if not key.startswith("perf/")}
    curves = {key: points for key, points in run.metrics().items() if not key.startswith("perf/")}
    weights = (run.checkpoints / "final.safetensors").read_bytes()
    return {"final": final, "by_position": run.record()["by_position"], "weights": weights, **curves}


def test_lanes_have_streams_of_their_own() -> None:
    lanes = [lane(torch.device("cuda", 0), index) for index in range(MOST_SIDE_BY_SIDE)]
    assert all(isinstance(each, CudaLane) for each in lanes)
    assert len({each.stream.cuda_stream for each in lanes if isinstance(each, CudaLane)}) == MOST_SIDE_BY_SIDE


@pytest.mark.parametrize(("spec", "count"), [(SMALL, 4), (LARGE, 2)])
def test_each_is_what_it_is_alone_bit_for_bit(plan, spec: dict[str, Any], count: int) -> None:
    changes: list[dict[str, Any]] = [{}, {"seed": 1}, {"clip": 0.1}, {"optimizer": {"kind": "muon"}}][:count]
    beside = [plan(f"{index}", spec, **change) for index, change in enumerate(changes)]
    alone = [plan(f"{index} alone", spec, **change) for index, change in enumerate(changes)]
    assert set(train(*beside, side_by_side=count)) == {"done"}
    for run in alone:
        train(run, side_by_side=1)
    for one, other in zip(beside, alone, strict=True):
        assert one.record()["execution"] == "captured"
        assert one.record()["side_by_side"] == count
        assert exact(one) == exact(other)


def test_all_are_paused_together_and_go_on_to_the_same_bits(plan) -> None:
    long = {"budget": {"kind": "steps", "steps": 400}}
    runs, alone = ([plan(f"{i}{how}", SMALL, seed=i, **long) for i in range(2)] for how in ("", " alone"))
    short = plan("short", SMALL)
    assert train(*runs, short, leave_after="short", side_by_side=3) == ["done", "paused", "paused"]
    assert train(*runs, side_by_side=2) == ["done", "done"]
    train(*alone, side_by_side=1)
    assert [exact(run) for run in runs] == [exact(run) for run in alone]


def test_one_that_diverges_or_fails_does_not_hurt_its_neighbours(plan) -> None:
    diverging = {
        "optimizer": {"kind": "adamw", "lr": 1e30},
        "clip": None,
        "schedule": {"kind": "cosine", "warmup": 0},
        "precision": "fp32",
        "model": {**SMALL["model"], "norm": "none"},
    }
    missing = {"data": {"corpus": {"kind": "text", "path": "missing.txt"}}}
    runs = [plan("a", SMALL), plan("b", SMALL, **diverging), plan("c", SMALL, **missing), plan("d", SMALL, seed=1)]
    train(*runs, side_by_side=4)
    assert [run.record()["status"] for run in runs] == ["done", "diverged", "failed", "done"]
    alone = plan("d alone", SMALL, seed=1)
    train(alone)
    assert exact(runs[3]) == exact(alone)


def test_groups_hold_no_more_memory_than_the_first(plan) -> None:
    taken: list[int] = []
    for group in range(4):
        train(*(plan(f"{group} {index}", SMALL, seed=index) for index in range(3)), side_by_side=3)
        taken.append(torch.cuda.memory_reserved())
    assert len(set(taken[1:])) == 1
    assert taken[-1] <= taken[0]


def test_a_run_says_what_memory_it_took_itself(plan) -> None:
    runs = [plan(f"{index}", LARGE) for index in range(2)]
    train(*runs, side_by_side=2)
    alone = plan("alone", LARGE)
    train(alone)
    beside = [run.record()["final"]["perf/memory_gib"] for run in runs]
    assert beside == pytest.approx([alone.record()["final"]["perf/memory_gib"]] * 2, rel=0.1)


def test_how_many_go_together_is_measured_while_they_train(plan) -> None:
    runs = [plan(f"{index}", SMALL, seed=index, budget={"kind": "steps", "steps": 3000}) for index in range(4)]
    assert train(*runs) == ["done"] * 4
    assert max(run.record()["side_by_side"] for run in runs) > 1


def test_kernels_that_are_compiled_in_parallel_give_the_same_bits(plan, tmp_path: Path) -> None:
    warm, cold = plan("warm", SMALL), plan("cold", SMALL)
    train(warm)
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    command = [sys.executable, "-m", "labkit.worker", str(cold.path)]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert exact(cold) == exact(warm)
