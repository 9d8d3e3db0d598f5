"""What holds on a CPU holds on a GPU, with bf16 and readings that come late."""

import itertools

import pytest
import torch

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


def test_a_late_reading_cuts_the_record_at_the_step_that_diverged(lab, spec) -> None:
    changes = {"optimizer.lr": 1e30, "model.norm": "none", "schedule.warmup": 0, "clip": None, "precision": "fp32"}
    run = lab.train(spec.patched(changes), device="cuda")
    assert (run.record()["status"], run.record()["diverged_at"]) == ("diverged", 2)
    assert [step for step, _ in run.metrics()["train/loss"]] == [1]
