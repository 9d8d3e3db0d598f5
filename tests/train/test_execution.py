"""How a run is executed changes nothing of it, and is on record."""

import itertools
import sys
from typing import Any, Literal

import pytest
import torch
from torch import nn

from labkit.components import Norm, Place
from labkit.optim.optimizer import Optimizer
from labkit.train import loop
from labkit.train.captured import Captured, place
from labkit.train.execution import Compiled, Eager, Made, Part
from labkit.train.loop import execution_of
from labkit.train.run import Runtime


class Rehearsing(Eager):
    """Runs the parts a few times before, as a capture does."""

    how = "captured"

    def made(self, *parts: Part) -> Made:
        for part in parts * 3:
            part()
        return super().made(*parts)


@pytest.fixture
def rehearsing(monkeypatch) -> None:
    monkeypatch.setattr(loop, "execution_of", lambda *_: Rehearsing())


@pytest.mark.parametrize(
    ("device", "runtime", "chosen"),
    [
        ("cpu", {}, Eager),
        ("cuda", {}, Captured),
        ("cuda", {"capture": "off"}, Eager),
        ("cuda", {"compile": True}, Compiled),
        ("cpu", {"compile": True}, Compiled),
    ],
)
def test_a_step_is_captured_on_a_gpu_unless_the_runtime_says_otherwise(device: str, runtime: Any, chosen) -> None:
    assert type(execution_of(Runtime(**runtime), torch.device(device))) is chosen


@pytest.mark.parametrize("optimizer", list(Optimizer.variants))
@pytest.mark.parametrize("micro_batch", [None, 2])
def test_getting_ready_leaves_no_trace(lab, curves, monkeypatch, optimizer: str, micro_batch: int | None) -> None:
    spec = lab.spec.patched({"optimizer": optimizer, "model.dropout": 0.1, "precision": "bf16", "budget.steps": 4})
    plain = lab.train(spec, micro_batch=micro_batch)
    monkeypatch.setattr(loop, "execution_of", lambda *_: Rehearsing())
    made = lab.train(spec, micro_batch=micro_batch)
    assert curves(made) == curves(plain)
    weights = [run.checkpoints.joinpath("final.safetensors").read_bytes() for run in (plain, made)]
    assert weights[0] == weights[1]


def test_a_run_goes_on_where_it_was_interrupted_also_when_it_gets_ready_first(lab, curves, rehearsing) -> None:
    spec = lab.spec.patched({"optimizer": "muon", "model.dropout": 0.1})
    whole, cut = lab.train(spec), lab.plan(spec)
    asked = itertools.count()
    lab.train(spec, cut, lambda: next(asked) >= 5)
    lab.train(spec, cut)
    assert curves(cut) == curves(whole)


class Counting(nn.Module):
    """Scales by how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * (1 + self.calls / 100)


def test_buffers_that_a_module_writes_to_are_as_they_were_before_getting_ready(lab, curves, monkeypatch) -> None:
    monkeypatch.setattr(Norm, "variants", dict(Norm.variants))

    class Counter(Norm):
        """x times a growing number."""

        kind: Literal["counter"] = "counter"

        def build(self, width: int, place: Place) -> nn.Module:
            return Counting()

    spec = lab.spec.patched({"model.norm": Counter()})
    plain = lab.train(spec)
    monkeypatch.setattr(loop, "execution_of", lambda *_: Rehearsing())
    assert curves(lab.train(spec)) == curves(plain)


def test_the_record_says_how_a_run_was_executed(lab, rehearsing, capsys) -> None:
    run = lab.train()
    assert (run.record()["execution"], run.record()["notes"]) == ("captured", [])
    assert "cpu, exact, captured: from step 0 of 12" in capsys.readouterr().out


def test_a_run_that_cannot_be_captured_says_why(lab, monkeypatch, capsys) -> None:
    class Failing(Eager):
        def made(self, *parts: Part) -> Made:
            return Made(parts, "eager", "mine.py:3 (x.item()) waits for the device")

    monkeypatch.setattr(loop, "execution_of", lambda *_: Failing())
    run = lab.train()
    note = "step: eager, for it cannot be captured: mine.py:3 (x.item()) waits for the device"
    assert (run.record()["execution"], run.record()["notes"]) == ("eager", [note])
    assert note in capsys.readouterr().out


def test_what_is_compiled_is_the_model_in_training(lab, curves, monkeypatch) -> None:
    compiled: list[Any] = []

    def compile_(losses: Any, dynamic: bool) -> Any:
        compiled.append((losses.__name__, dynamic))
        return losses

    plain = lab.train()
    monkeypatch.setattr(torch, "compile", compile_)
    run = lab.train(compile=True)
    assert compiled == [("losses", False)]
    assert run.record()["execution"] == "compiled"
    assert curves(run) == curves(plain)


def test_a_run_that_is_not_compiled_does_without_torchs_compiler(lab, monkeypatch) -> None:
    """To import it takes seconds."""
    for compiler in ("torch._dynamo", "torch._inductor.config"):
        monkeypatch.setitem(sys.modules, compiler, None)
    assert lab.train(lab.spec.patched({"optimizer": "muon"})).record()["status"] == "done"


def test_the_place_of_an_error_is_the_last_line_that_is_not_torchs() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.nn.functional.linear(torch.ones(2), torch.ones(3, 3))
    assert place(caught.value).startswith("test_execution.py:")
    assert place(caught.value).endswith("(torch.nn.functional.linear(torch.ones(2), torch.ones(3, 3)))")
