"""Whole runs: their record, their repetition, their interruption, their failure."""

import itertools
import json
import math
from collections.abc import Callable

import pytest
import torch

from labkit.model import costs
from labkit.optim.optimizer import Optimizer
from labkit.spec import Mistake
from labkit.tracking import documents


def after(steps: int) -> Callable[[], bool]:
    """Says stop when asked for the first time after so many steps."""
    asked = itertools.count()
    return lambda: next(asked) >= steps


@pytest.fixture
def longer(lab):
    """Learns: 60 steps, with dropout and accumulation, so that resuming has all there is to get right."""
    return lab.spec.patched({"budget.steps": 60, "model.dropout": 0.1, "evaluation.points": 6})


def test_a_finished_run_has_its_facts_on_record(lab) -> None:
    run = lab.train()
    record = run.record()
    assert record["status"] == "done"
    assert (record["step"], record["steps"], record["tokens"]) == (12, 12, 12 * 4 * 16)
    assert record["ways"] == {"attention": "torch", "head": "whole"}
    assert (record["device"], record["mode"], record["kernels"], record["precision"]) == (
        "cpu",
        "exact",
        "torch",
        "fp32",
    )
    assert record["data"]["hash"] == lab.store.hash
    assert record["versions"]["torch"] == torch.__version__
    assert record["runtime"]["threads"] == 1
    assert record["started"] < record["ended"]
    assert 0 < record["seconds"] < record["ended"] - record["started"]
    assert record["epochs"] == 12 * 4 / ((lab.store.train.n_tokens - 1) // 16)
    assert (record["diverged_at"], record["error"], record["notes"]) == (None, None, [])


def test_a_finished_run_has_its_results_on_record(lab) -> None:
    record = lab.train().record()
    final = record["final"]
    assert set(final) == {
        *("val/loss", "val/bpb", "val/loss_x1", "val/loss_x2", "val/loss_x4", "train/loss"),
        *("perf/tokens_per_s", "perf/tflops", "perf/memory_gib"),
    }
    assert final["val/loss"] < math.log(257)
    flops = costs(lab.spec.model, 257).flops_per_token
    assert final["perf/tflops"] == pytest.approx(final["perf/tokens_per_s"] * flops / 1e12)
    assert record["by_position"]["edges"] == [1, 2, 4, 8, 16]
    assert len(record["by_position"]["loss"]) == 4
    assert record["beyond"]["edges"] == [1, 2, 4, 8, 16, 32, 64]


def test_a_finished_run_keeps_what_it_scored_on_each_document(lab) -> None:
    run = lab.train()
    scores = documents.kept(run)["val"]
    assert len(scores) == lab.store.val.n_documents
    assert scores.nats.sum() / scores.tokens.sum() == pytest.approx(run.record()["final"]["val/loss"], rel=1e-14)
    assert lab.train().documents.read_bytes() == run.documents.read_bytes()


def test_the_curves_are_in_the_metrics(lab) -> None:
    curves = lab.train().metrics()
    assert [step for step, _ in curves["val/loss"]] == [4, 8, 12]
    assert [step for step, _ in curves["train/loss"]] == list(range(1, 13))
    assert curves["optim/lr"][2] == (3, 0.01)
    assert curves["data/epoch"][-1][1] == lab.train().record()["epochs"]
    assert {"val/bpb", "optim/grad_norm", "perf/tokens_per_s", "perf/tflops", "perf/memory_gib"} < set(curves)


def test_a_run_learns(lab, longer) -> None:
    run = lab.train(longer)
    losses = [loss for _, loss in run.metrics()["val/loss"]]
    assert losses[-1] < losses[0] - 0.5
    assert run.record()["final"]["val/loss"] == pytest.approx(losses[-1], abs=0.2)


def test_the_same_spec_gives_the_same_bits(lab, longer, curves) -> None:
    first, second = lab.train(longer), lab.train(longer)
    assert curves(first) == curves(second)
    weights = [run.checkpoints.joinpath("final.safetensors").read_bytes() for run in (first, second)]
    assert weights[0] == weights[1]


def test_another_seed_gives_another_run(lab, curves) -> None:
    assert curves(lab.train())["train/loss"] != curves(lab.train(lab.spec.patched({"seed": 1})))["train/loss"]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_interrupted_run_equals_an_uninterrupted_one(lab, longer, curves, monkeypatch, precision: str) -> None:
    monkeypatch.setattr("labkit.train.curves.LOSS_POINTS", 8)  # points are means of 9 steps, some of them cut through
    spec = longer.patched({"precision": precision})
    whole, run = lab.train(spec, micro_batch=2), lab.plan(spec)
    for stop in (0, 1, 24, 10):
        lab.train(spec, run, after(stop), micro_batch=2)
        assert run.record()["status"] == "paused"
    lab.train(spec, run, micro_batch=2)
    same = ("val/loss", "val/bpb", "val/loss_x2", "val/loss_x4", "train/loss")
    assert [run.record()["final"][key] for key in same] == [whole.record()["final"][key] for key in same]
    assert run.record()["by_position"] == whole.record()["by_position"]
    assert curves(run) == curves(whole)


RATES = {"adamw": 0.01, "sgd": 0.3, "lion": 0.003, "adafactor": 0.1, "muon": 0.02}


def test_every_optimizer_is_trained_with_here() -> None:
    assert set(RATES) == set(Optimizer.variants)


@pytest.mark.parametrize("optimizer", list(RATES))
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
def test_every_optimizer_goes_on_to_the_bit_where_it_was_interrupted(lab, curves, optimizer: str, precision) -> None:
    spec = lab.spec.patched({"optimizer": optimizer, "precision": precision, "evaluation.points": 1})
    whole, cut = lab.train(spec), lab.plan(spec)
    for stop in (1, 6):
        lab.train(spec, cut, after(stop))
    lab.train(spec, cut)
    assert curves(cut) == curves(whole)
    weights = [run.checkpoints.joinpath("final.safetensors").read_bytes() for run in (whole, cut)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("optimizer", list(RATES))
def test_every_optimizer_learns(lab, longer, optimizer: str) -> None:
    changes = {
        "optimizer": {"kind": optimizer, "lr": RATES[optimizer]},
        "evaluation.points": 2,
        "evaluation.windows": 2,
    }
    losses = [loss for _, loss in lab.train(longer.patched(changes)).metrics()["train/loss"]]
    assert losses[-1] < losses[0] - 0.5


def test_a_run_that_its_driver_has_seen_enough_of_is_pruned_and_leaves_no_checkpoint(lab) -> None:
    run = lab.plan(lab.spec)
    run.request_stop("pruned")
    lab.train(run=run, should_stop=after(5))
    record = run.record()
    assert (record["status"], record["step"]) == ("pruned", 5)
    assert not list(run.checkpoints.glob("step-*"))
    run.clear_stop()
    lab.train(run=run)
    assert run.record()["status"] == "done"


def test_a_paused_run_says_where_it_is(lab) -> None:
    run = lab.train(should_stop=after(5))
    record = run.record()
    assert (record["status"], record["step"]) == ("paused", 5)
    assert "final" not in record
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-000000005"]


def test_a_run_killed_after_a_checkpoint_repeats_its_points_without_doubling_them(lab, longer, curves) -> None:
    whole, run = lab.train(longer), lab.plan(longer)

    def killed() -> bool:
        if len(run.lines()[0]) > 40:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        lab.train(longer, run, killed, checkpoint_seconds=0.0)
    assert run.record()["status"] == "running"
    lab.train(longer, run)
    assert curves(run) == curves(whole)


def test_a_finished_run_keeps_its_weights_and_nothing_to_resume_from(lab) -> None:
    run = lab.train(checkpoint_seconds=0.0)
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["final.json", "final.safetensors"]


def test_seconds_add_up_over_interruptions(lab) -> None:
    run = lab.train(should_stop=after(6))
    before = run.record()["seconds"]
    lab.train(run=run)
    assert run.record()["seconds"] > before


def test_activation_checkpointing_gives_the_same_numbers(lab, longer, curves) -> None:
    assert curves(lab.train(longer, activation_checkpointing=True)) == curves(lab.train(longer))


def test_accumulating_over_micro_batches_gives_the_same_run_to_rounding(lab) -> None:
    spec = lab.spec.patched({"precision": "fp64", "model.dropout": 0.1})
    whole, parts = lab.train(spec).metrics(), lab.train(spec, micro_batch=1).metrics()
    for key in ("train/loss", "optim/grad_norm", "val/loss"):
        assert dict(parts[key]) == pytest.approx(dict(whole[key]), rel=1e-7)


def test_a_bf16_run_learns(lab, longer) -> None:
    run = lab.train(longer.patched({"precision": "bf16"}))
    losses = [loss for _, loss in run.metrics()["val/loss"]]
    assert losses[-1] < losses[0] - 0.5
    assert run.record()["notes"] == []


def test_lengths_that_the_model_cannot_read_are_left_out_and_said(lab) -> None:
    record = lab.train(lab.spec.patched({"model.position": "learned"})).record()
    assert "val/loss_x2" not in record["final"]
    assert "x2 is 32 tokens, the model reads 16, the longest validation document has" in record["notes"][0]


def test_a_rising_loss_is_a_divergence_with_a_step(lab) -> None:
    run = lab.train(lab.spec.patched({"optimizer.lr": 3.0, "budget.steps": 200, "clip": None}))
    record = run.record()
    assert record["status"] == "diverged"
    assert record["diverged_at"] == record["step"] == 50
    assert "val/loss" not in record["final"]
    assert max(step for step, _ in run.metrics()["train/loss"]) < record["diverged_at"]


def test_a_loss_that_is_not_finite_is_a_divergence_at_its_step(lab) -> None:
    changes = {"optimizer.lr": 1e30, "model.norm": "none", "schedule.warmup": 0, "clip": None, "budget.steps": 200}
    run = lab.train(lab.spec.patched(changes))
    record = run.record()
    assert (record["status"], record["diverged_at"]) == ("diverged", 2)
    assert record["final"]["train/loss"] == run.metrics()["train/loss"][0][1]
    assert not list(run.checkpoints.glob("step-*"))


def test_an_interrupted_divergence_is_the_same_divergence(lab) -> None:
    spec = lab.spec.patched({"optimizer.lr": 3.0, "budget.steps": 200, "clip": None})
    whole, run = lab.train(spec), lab.plan(spec)
    lab.train(spec, run, after(40))
    lab.train(spec, run)
    assert run.record()["diverged_at"] == whole.record()["diverged_at"]


def test_curves_stay_within_two_thousand_points(lab, monkeypatch) -> None:
    monkeypatch.setattr("labkit.train.curves.LOSS_POINTS", 5)
    monkeypatch.setattr("labkit.train.curves.SPEED_POINTS", 3)
    each, thinned = lab.spec, lab.train(lab.spec).metrics()
    monkeypatch.undo()
    full = dict(lab.train(each).metrics()["train/loss"])
    assert [step for step, _ in thinned["train/loss"]] == [1, 3, 6, 9, 12]
    assert dict(thinned["train/loss"])[6] == pytest.approx((full[4] + full[5] + full[6]) / 3)
    assert [step for step, _ in thinned["data/epoch"]] == [1, 6, 12]


def test_a_runtime_that_does_not_fit_is_refused_before_anything_is_written(lab) -> None:
    run = lab.plan(lab.spec)
    with pytest.raises(Mistake, match="--micro-batch: 3 does not divide batch_size 4"):
        lab.train(run=run, micro_batch=3)
    assert run.record()["status"] == "planned"


def test_the_record_is_plain_json_without_nan(lab) -> None:
    run = lab.train()
    json.loads((run.path / "record.json").read_text(), parse_constant=pytest.fail)


def test_a_session_of_before_batches_were_shared_is_like_one_that_shares_none(lab) -> None:
    run = lab.train(should_stop=after(6))
    sessions = run.record()["sessions"]
    del sessions[0]["runtime"]["data_parallel"]
    run.update(sessions=sessions)
    lab.train(run=run)
    assert (len(run.record()["sessions"]), run.record()["notes"]) == (2, [])


def test_a_resumed_run_may_have_other_neighbours_and_be_the_same_bit_for_bit(lab) -> None:
    run = lab.train(should_stop=after(6))
    lab.train(run=run, side_by_side=3, checkpoint_seconds=5)
    assert (run.record()["notes"], run.record()["side_by_side"]) == ([], 1)
    other = lab.train(should_stop=after(6))
    lab.train(run=other, micro_batch=2)
    assert other.record()["notes"] == ["resumed with another runtime: not bit for bit an uninterrupted run"]
