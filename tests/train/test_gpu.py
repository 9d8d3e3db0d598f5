"""What holds on a CPU holds on a GPU, with bf16 and readings that come late."""

import itertools
import os
from typing import Any

import pytest
import torch

from labkit.model import Transformer
from labkit.optim.optimizer import Optimizer
from labkit.optim.weights import Weights
from labkit.tracking.record import Run
from labkit.train.loop import build
from labkit.train.run import RunSpec

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


@pytest.fixture
def spec(lab) -> RunSpec:
    return lab.spec.patched({"precision": "bf16", "budget.steps": 60, "model.dropout": 0.1, "model.d_model": 64})


def test_a_run_on_a_gpu_learns_and_says_what_it_ran_on(lab, spec) -> None:
    run = lab.train(spec, device="cuda")
    losses = [loss for _, loss in run.metrics()["val/loss"]]
    assert losses[-1] < losses[0]
    assert run.record()["device"] == torch.cuda.get_device_name(0)
    assert [step for step, _ in run.metrics()["train/loss"]] == list(range(1, 61))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_exact_runs_repeat_bit_for_bit_also_when_interrupted(lab, spec, curves, precision: str) -> None:
    spec = spec.patched({"precision": precision})
    whole, again, cut = lab.train(spec, device="cuda"), lab.train(spec, device="cuda"), lab.plan(spec)
    asked = itertools.count()
    lab.train(spec, cut, lambda: next(asked) >= 23, device="cuda")
    lab.train(spec, cut, device="cuda")
    assert curves(whole) == curves(again) == curves(cut)


@pytest.mark.parametrize("optimizer", list(Optimizer.variants))
def test_exact_runs_of_every_optimizer_repeat_also_when_interrupted(lab, spec, curves, optimizer: str) -> None:
    spec = spec.patched({"optimizer": optimizer})
    whole, cut = lab.train(spec, device="cuda"), lab.plan(spec)
    asked = itertools.count()
    lab.train(spec, cut, lambda: next(asked) >= 23, device="cuda")
    lab.train(spec, cut, device="cuda")
    assert curves(whole) == curves(cut)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("optimizer", list(Optimizer.variants))
def test_no_optimizer_waits_for_the_device(spec, optimizer: str) -> None:
    spec = spec.patched({"optimizer": optimizer})
    weights = Weights(build(spec, 257, torch.device("cuda")), spec.precision)
    stepped: Any = spec.optimizer.build(weights)
    stepped.grad_scale, stepped.found_inf = torch.ones((), device="cuda"), torch.zeros((), device="cuda")
    for group in stepped.param_groups:
        group["lr"] = torch.tensor(1e-3, device="cuda")
    weights.gradient.normal_()
    stepped.step()
    try:
        torch.cuda.set_sync_debug_mode("error")
        stepped.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_late_reading_cuts_the_record_at_the_step_that_diverged(lab, spec) -> None:
    changes = {"optimizer.lr": 1e30, "model.norm": "none", "schedule.warmup": 0, "clip": None, "precision": "fp32"}
    run = lab.train(spec.patched(changes), device="cuda")
    assert (run.record()["status"], run.record()["diverged_at"]) == ("diverged", 2)
    assert [step for step, _ in run.metrics()["train/loss"]] == [1]


@pytest.fixture
def large(lab) -> RunSpec:
    """Large enough for attention kernels that add in any order to show it."""
    return lab.spec.patched(
        {
            "model.d_model": 768,
            "model.context": 1024,
            "model.attention.n_heads": 12,
            "batch_size": 32,
            "precision": "bf16",
            "optimizer.lr": 1e-3,
            "budget.steps": 12,
            "evaluation.windows": 8,
            "evaluation.beyond": (2,),
        }
    )


def weights(run: Run) -> bytes:
    return (run.checkpoints / "final.safetensors").read_bytes()


def test_large_runs_repeat_bit_for_bit_also_when_interrupted(lab, large, curves) -> None:
    whole, again, cut = lab.train(large, device="cuda"), lab.train(large, device="cuda"), lab.plan(large)
    asked = itertools.count()
    lab.train(large, cut, lambda: next(asked) >= 5, device="cuda")
    lab.train(large, cut, device="cuda")
    assert curves(whole) == curves(again) == curves(cut)
    assert weights(whole) == weights(again) == weights(cut)


def test_activation_checkpointing_gives_the_same_bits_in_less_memory(lab, large) -> None:
    deep = large.patched({"model.n_layers": 6, "model.dropout.residual": 0.1})
    plain, recomputed = lab.train(deep, device="cuda"), lab.train(deep, device="cuda", activation_checkpointing=True)
    assert weights(plain) == weights(recomputed)
    kept, saved = (run.record()["final"]["perf/memory_gib"] for run in (plain, recomputed))
    assert saved < 0.8 * kept


def test_grouped_heads_with_dropout_train_in_micro_batches(lab, large) -> None:
    attention = {"kind": "gqa", "n_heads": 12, "n_kv_heads": 4}
    spec = large.patched({"model.attention": attention, "model.dropout": 0.1, "batch_size": 8})
    losses = dict(lab.train(spec, device="cuda", micro_batch=2).metrics()["train/loss"])
    assert losses[12] < losses[1] - 0.5


def test_the_fast_mode_says_so_and_learns_the_same(lab, large) -> None:
    exact, fast = lab.train(large, device="cuda"), lab.train(large, device="cuda", mode="fast")
    assert (exact.record()["mode"], fast.record()["mode"]) == ("exact", "fast")
    assert fast.record()["final"]["val/loss"] == pytest.approx(exact.record()["final"]["val/loss"], rel=0.02)


def test_the_gpu_computes_what_the_cpu_computes(large) -> None:
    model = Transformer(large.model.patched({"n_layers": 1}), 257)
    model.initialize(0)
    tokens = torch.randint(257, (2, 128))
    here = model.losses(tokens, tokens.roll(-1, 1))
    there = model.cuda().losses(tokens.cuda(), tokens.cuda().roll(-1, 1))
    torch.testing.assert_close(there.cpu(), here, rtol=1e-4, atol=1e-4)


def test_memory_is_given_back_after_each_run(lab, large) -> None:
    lab.train(large, device="cuda")
    after_one = torch.cuda.memory_reserved()
    lab.train(large, device="cuda")
    assert torch.cuda.memory_reserved() <= after_one


@pytest.mark.skipif(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") != "1", reason="other tests use the GPU beside it")
def test_the_speed_of_a_run_is_the_same_at_every_point(lab, large) -> None:
    """The host runs ahead of the device and reads in bursts, of which the curve must show nothing."""
    spec = large.patched({"budget.steps": 60, "evaluation.points": 6, "model.n_layers": 6})
    run = lab.train(spec, device="cuda")
    speeds = [speed for _, speed in run.metrics()["perf/tokens_per_s"]][2:]
    assert max(speeds) < 1.5 * min(speeds)
    assert run.record()["final"]["perf/tokens_per_s"] == pytest.approx(sorted(speeds)[len(speeds) // 2], rel=0.2)
