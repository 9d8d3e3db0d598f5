"""A captured step on a GPU: the same bits as one that runs as it is written, without the host."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import nn

from labkit.components import Norm, Place
from labkit.data import windows
from labkit.optim.optimizer import Optimizer
from labkit.optim.weights import Weights
from labkit.tracking import documents
from labkit.tracking.record import Run
from labkit.train.captured import Captured, waiting_refused
from labkit.train.device import settings
from labkit.train.evaluate import Evaluator
from labkit.train.execution import Eager
from labkit.train.feed import AHEAD, feed_on
from labkit.train.finished import finished
from labkit.train.loop import build
from labkit.train.run import RunSpec, Runtime
from labkit.train.score import SteadyScorer
from labkit.train.step import Step

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


@pytest.fixture
def spec(lab) -> RunSpec:
    changes = {"precision": "bf16", "budget.steps": 20, "model.dropout": 0.1, "model.d_model": 64}
    return lab.spec.patched(changes)


@pytest.fixture
def device() -> Iterator[torch.device]:
    with settings(Runtime(device="cuda")) as chosen:
        yield chosen


def weights(run: Run) -> bytes:
    return (run.checkpoints / "final.safetensors").read_bytes()


def results(run: Run) -> dict[str, Any]:
    """What a run measured at its end, to the last digit."""
    return {key: value for key, value in run.record()["final"].items() if not key.startswith("perf/")}


def stepping(spec: RunSpec, device: torch.device, execution: Eager) -> Step:
    model = build(spec, 257, device)
    parts = Weights(model, spec.precision)
    return Step(
        model,
        parts,
        spec.optimizer.build(parts),
        factors=[1.0] * 100,
        clip=1.0,
        batch_size=spec.batch_size,
        length=spec.model.context,
        rows=spec.batch_size,
        dropout_seed=0,
        execution=execution,
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("optimizer", list(Optimizer.variants))
def test_a_captured_run_is_the_eager_one_bit_for_bit(lab, spec, curves, optimizer: str, precision: str) -> None:
    spec = spec.patched({"optimizer": optimizer, "precision": precision})
    captured, eager = lab.train(spec, device="cuda"), lab.train(spec, device="cuda", capture="off")
    assert [run.record()["execution"] for run in (captured, eager)] == ["captured", "eager"]
    assert captured.record()["notes"] == []
    assert (curves(captured), results(captured)) == (curves(eager), results(eager))
    assert weights(captured) == weights(eager)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_so_it_is_in_micro_batches(lab, spec, curves, precision: str) -> None:
    spec = spec.patched({"precision": precision})
    captured, eager = (lab.train(spec, device="cuda", micro_batch=1, capture=how) for how in ("auto", "off"))
    assert captured.record()["execution"] == "captured"
    assert curves(captured) == curves(eager)
    assert weights(captured) == weights(eager)


@pytest.mark.parametrize(
    "changes",
    [
        {"model.attention": {"kind": "gqa", "n_heads": 4, "n_kv_heads": 2, "softcap": 20.0, "sinks": True}},
        {"model.attention": {"kind": "differential", "n_heads": 2}, "model.position": "t5"},
        {"model.attention": {"kind": "mla", "n_heads": 4}, "model.norm": "layer", "model.residual": "peri"},
        {"model.position": "alibi", "model.feedforward": "gelu", "model.head": "untied", "model.loss.z": 1e-4},
        {"model.position": "sinusoidal", "model.attention.window": 5, "model.residual": "parallel"},
    ],
)
@pytest.mark.parametrize("micro_batch", [None, 2])
def test_so_are_other_components(lab, spec, curves, changes: dict[str, Any], micro_batch: int | None) -> None:
    spec = spec.patched(changes)
    captured, eager = (lab.train(spec, device="cuda", capture=how, micro_batch=micro_batch) for how in ("auto", "off"))
    assert captured.record()["notes"] == []
    assert curves(captured) == curves(eager)
    assert weights(captured) == weights(eager)


def test_recomputed_activations_are_captured_too(lab, spec, curves) -> None:
    plain, saving = (lab.train(spec, device="cuda", activation_checkpointing=saved) for saved in (False, True))
    assert saving.record()["execution"] == "captured"
    assert curves(plain) == curves(saving)


@pytest.mark.parametrize("micro_batch", [None, 8])
def test_large_captured_runs_are_the_eager_ones_interrupted_or_not(lab, curves, micro_batch: int | None) -> None:
    """Large enough for kernels that add in any order to show it."""
    spec = lab.spec.patched(
        {
            "model.d_model": 768,
            "model.context": 1024,
            "model.attention.n_heads": 12,
            "model.dropout.residual": 0.1,
            "batch_size": 32,
            "precision": "bf16",
            "optimizer.lr": 1e-3,
            "budget.steps": 20,
            "evaluation": {"points": 2, "windows": 8, "beyond": ()},
        }
    )
    whole, cut = (lab.plan(spec) for _ in range(2))
    lab.train(spec, whole, device="cuda", micro_batch=micro_batch)
    asked = itertools.count()
    lab.train(spec, cut, lambda: next(asked) >= 7, device="cuda", micro_batch=micro_batch)
    lab.train(spec, cut, device="cuda", micro_batch=micro_batch)
    eager = lab.train(spec, device="cuda", micro_batch=micro_batch, capture="off")
    assert curves(whole) == curves(cut) == curves(eager)
    assert weights(whole) == weights(cut) == weights(eager)


@pytest.mark.parametrize("optimizer", list(Optimizer.variants))
def test_an_interrupted_captured_run_is_the_uninterrupted_one(lab, spec, curves, optimizer: str) -> None:
    spec = spec.patched({"optimizer": optimizer})
    whole, cut = lab.train(spec, device="cuda"), lab.plan(spec)
    for stop in (0, 7):
        asked = itertools.count()
        lab.train(spec, cut, lambda asked=asked, stop=stop: next(asked) >= stop, device="cuda")
    lab.train(spec, cut, device="cuda")
    assert curves(whole) == curves(cut)
    assert weights(whole) == weights(cut)


@torch.no_grad()
def test_a_captured_evaluation_is_the_eager_one(lab, spec, device) -> None:
    model = build(spec, 257, device).eval()
    captured, eager = (SteadyScorer(model, device, 16, 4, execution) for execution in (Captured(), Eager()))
    for limit in (7, None, 3, None):
        batches = list(windows(lab.store.val, 16, limit, rows=4))
        found = [np.concatenate([losses.copy() for losses, _ in s.losses(batches)]) for s in (captured, eager)]
        assert np.array_equal(*found)
    assert (captured.made.how, captured.notes) == ("captured", [])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_captured_evaluation_scores_documents_twice_alike_and_as_the_cpu_does(lab, spec, device, precision) -> None:
    spec = spec.patched({"precision": precision, "model.dropout": 0.1})
    run = lab.train(spec, device="cuda")
    there = documents.kept(run)["val"]
    again = documents.kept(lab.train(spec, device="cuda"))["val"]
    assert np.array_equal(there.nats, again.nats)
    model = finished(run, spec, torch.device("cpu"))
    _, here = Evaluator(model, spec, lab.store, rows=4, device=torch.device("cpu"), execution=Eager()).whole(
        lab.store.val
    )
    assert np.array_equal(here.tokens, there.tokens)
    assert np.array_equal(here.bytes, there.bytes)
    np.testing.assert_allclose(here.nats, there.nats, rtol=1e-5 if precision == "fp32" else 0.02)


def test_a_captured_run_diverges_at_the_step_of_the_eager_one(lab, spec) -> None:
    changes = {"optimizer.lr": 1e30, "model.norm": "none", "schedule.warmup": 0, "clip": None, "precision": "fp32"}
    runs = [lab.train(spec.patched(changes), device="cuda", capture=how) for how in ("auto", "off")]
    assert [(run.record()["status"], run.record()["diverged_at"]) for run in runs] == [("diverged", 2)] * 2
    assert runs[0].metrics()["train/loss"] == runs[1].metrics()["train/loss"]


def test_a_captured_step_that_is_not_finite_freezes_all_after_it(lab, spec, device) -> None:
    step = stepping(spec, device, Captured())
    step.prepare()
    batches = [torch.from_numpy(lab.batches.train(number)) for number in range(4)]
    step(0, batches[0])
    before = {name: view.clone() for name, view in step.weights.masters.items()}
    gain = step.weights.masters["norm.gain"]
    kept = gain.clone()
    gain[0] = torch.nan
    step(1, batches[1])
    gain.copy_(kept)
    step(2, batches[2])
    assert [reading.frozen for reading in step.readings(0)] == [False, True, True]
    assert all(torch.equal(before[name], master) for name, master in step.weights.masters.items())


@pytest.mark.parametrize("execution", [Captured(), Eager()])
@pytest.mark.parametrize("optimizer", list(Optimizer.variants))
def test_no_step_waits_for_the_device(lab, spec, device, optimizer: str, execution: Eager) -> None:
    step = stepping(spec.patched({"optimizer": optimizer}), device, execution)
    step.prepare()
    batches = [torch.from_numpy(lab.batches.train(number)) for number in range(20)]
    with waiting_refused():
        for number, batch in enumerate(batches):
            step(number, batch)
        losses = [reading.loss for reading in step.readings(0)]
    assert len(losses) == 20
    assert losses[-1] < losses[0]


def test_inputs_arrive_in_order_however_far_the_host_is_ahead(device) -> None:
    feed, seen = feed_on(device, rows=64, length=1025, beside=1), []
    batches = [torch.full((64, 1025), number) for number in range(4 * AHEAD)]
    for number, batch in enumerate(batches):
        torch.cuda._sleep(2_000_000)
        feed.put(batch, number)
        seen.append((feed.tokens_RT.clone(), feed.beside.clone()))
    for batch, (tokens, beside) in zip(batches, seen, strict=True):
        assert torch.equal(tokens.cpu(), batch)
        assert beside.item() == batch[0, 0]


def reserved_after(train: Callable[[int], object], times: int) -> list[tuple[int, int]]:
    """What torch reserves, and what is taken of the device, after each of some runs."""
    taken = []
    for number in range(times):
        train(number)
        free, total = torch.cuda.mem_get_info()
        taken.append((torch.cuda.memory_reserved(), total - free))
    return taken


def test_ten_variants_hold_no_more_memory_than_one(lab, spec) -> None:
    spec = spec.patched({"model.context": 256, "model.d_model": 256, "batch_size": 16, "evaluation.beyond": ()})

    def variant(number: int) -> None:
        run = lab.train(spec.patched({"budget.steps": 4, "model.n_layers": 1 + number % 3}), device="cuda")
        assert run.record()["execution"] == "captured"

    taken = reserved_after(variant, 10)
    assert {reserved for reserved, _ in taken[1:]} == {taken[0][0]}
    assert taken[9][1] <= taken[3][1] + 2**25  # the driver's own, which grows by a page now and then


def test_a_mixture_of_experts_runs_as_it_is_written_and_says_why(lab, spec) -> None:
    mixture = {"kind": "moe", "n_experts": 4, "top_k": 2}
    run = lab.train(spec.patched({"model.feedforward": mixture}), device="cuda")
    assert (run.record()["status"], run.record()["execution"]) == ("done", "eager")
    step, evaluation = run.record()["notes"]
    assert step.startswith("step: eager, for it cannot be captured: moe.py:")
    assert step.endswith("waits for the device")
    assert evaluation.startswith("evaluation: eager, for it cannot be captured: moe.py:")


class Asking(nn.Module):
    """Waits for the device in a way that torch's debug mode does not see."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.cuda.current_stream().synchronize()
        return x


def test_a_capture_that_fails_leaves_the_device_as_it_was(lab, spec, curves, monkeypatch) -> None:
    monkeypatch.setattr(Norm, "variants", dict(Norm.variants))

    class Ask(Norm):
        """x."""

        kind: Literal["ask"] = "ask"

        def build(self, width: int, place: Place) -> nn.Module:
            return Asking()

    before = lab.train(spec, device="cuda")

    def fail(_: int) -> None:
        run = lab.train(spec.patched({"model.norm": Ask()}), device="cuda")
        assert (run.record()["status"], run.record()["execution"]) == ("done", "eager")
        assert "test_captured.py:" in run.record()["notes"][0]

    taken = reserved_after(fail, 3)
    assert taken[0][0] == taken[1][0] == taken[2][0]
    after = lab.train(spec, device="cuda")
    assert after.record()["execution"] == "captured"
    assert curves(after) == curves(before)


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_a_compiled_run_learns_what_the_eager_one_does(lab, spec) -> None:
    spec = spec.patched({"model.n_layers": 1, "precision": "fp32", "model.dropout": 0.0})
    compiled, eager = lab.train(spec, device="cuda", compile=True), lab.train(spec, device="cuda", capture="off")
    assert compiled.record()["execution"] == "compiled"
    assert results(compiled)["val/loss"] == pytest.approx(results(eager)["val/loss"], abs=1e-3)
