"""Buffers that training changes: no less kept than weights."""

import itertools
from typing import Literal

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from labkit.components import Norm, Place
from labkit.train.buffers import buffers, restore, written
from labkit.train.finished import finished

PHASES, MASK = torch.tensor([1j, 2.0]), torch.ones(2, dtype=torch.bool)


class Counting(nn.Module):
    """Scales by how often it was called in training, and has what no file of tensors takes as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("phases", PHASES.clone())
        self.register_buffer("mask", MASK)  # of all layers one
        self.register_buffer("table", torch.zeros(2), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += self.training
        return x * (1 + self.calls / 100)


@pytest.fixture
def counting(lab, monkeypatch: pytest.MonkeyPatch):
    """A spec with a norm that counts."""
    monkeypatch.setattr(Norm, "variants", dict(Norm.variants))

    class Counter(Norm):
        """x times a growing number."""

        kind: Literal["counter"] = "counter"

        def build(self, width: int, place: Place) -> nn.Module:
            return Counting()

    return lab.spec.patched({"model.norm": Counter()})


def test_what_is_kept_returns_to_the_bit_and_what_is_made_again_is_not_kept() -> None:
    one, other = Counting(), Counting()
    one.calls += 3
    one.phases *= 1j
    restore(other, written(one))
    assert sorted(buffers(one)) == ["calls", "mask", "phases"]
    assert (other.calls, other.phases.tolist()) == (3, one.phases.tolist())


def test_an_interrupted_run_goes_on_with_the_buffers_that_it_had(lab, counting, curves) -> None:
    whole, cut = lab.train(counting), lab.plan(counting)
    asked = itertools.count()
    lab.train(counting, cut, lambda: next(asked) >= 5)
    assert cut.record()["status"] == "paused"
    lab.train(counting, cut)
    assert curves(cut) == curves(whole)


def test_a_finished_model_has_the_buffers_that_it_ended_with(lab, counting) -> None:
    run = lab.train(counting)
    file = run.checkpoints / "final.safetensors"
    calls = load_file(file)["buffers/norm.calls"]
    assert calls > 0
    model = finished(run, counting, torch.device("cpu"))
    assert model.get_buffer("norm.calls") == calls
