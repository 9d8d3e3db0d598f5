"""One step against what it is made of."""

import math
from typing import Any

import pytest
import torch

from labkit.components.parameters import logical
from labkit.optim.weights import Weights
from labkit.train.execution import Eager
from labkit.train.loop import build
from labkit.train.step import Step

CPU = torch.device("cpu")


def made(lab, clip: float | None = None, rows: int = 4, **changes: Any) -> Step:
    spec = lab.spec.patched({"precision": "fp64", **changes})
    model = build(spec, 257, CPU)
    weights = Weights(model, spec.precision)
    optimizer = spec.optimizer.build(weights)
    return Step(
        model,
        weights,
        optimizer,
        factors=[1.0, 0.5, 0.25] * 20,
        clip=clip,
        batch_size=4,
        length=spec.model.context,
        rows=rows,
        dropout_seed=0,
        execution=Eager(),
    )


def batch(lab, rows: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 257, (rows, lab.spec.model.context + 1), generator=generator)


def test_a_step_is_the_mean_loss_of_the_batch_and_its_gradient(lab) -> None:
    step, tokens = made(lab), batch(lab)
    model = build(lab.spec, 257, CPU).double()
    loss = model.losses(tokens[:, :-1], tokens[:, 1:]).mean()
    loss.backward()
    norm = math.sqrt(sum((stored.grad**2).sum().item() for stored in model.parameters()))
    step(0, tokens)
    (reading,) = step.readings()
    assert (reading.step, reading.frozen) == (1, False)
    assert (reading.loss, reading.norm) == pytest.approx((loss.item(), norm), rel=1e-6)


@pytest.mark.parametrize("rows", [1, 2])
def test_micro_batches_add_up_to_the_batch(lab, rows: int) -> None:
    whole, parts = made(lab, **{"model.dropout": 0.2}), made(lab, rows=rows, **{"model.dropout": 0.2})
    for step in (whole, parts):
        step(0, batch(lab))
    torch.testing.assert_close(parts.weights.gradient, whole.weights.gradient, rtol=1e-9, atol=1e-12)
    assert next(parts.readings()).loss == pytest.approx(next(whole.readings()).loss, rel=1e-12)


def test_a_clipped_gradient_has_the_largest_norm_allowed(lab) -> None:
    free, clipped, loose = made(lab), made(lab, clip=1e-3), made(lab, clip=1e9)
    for step in (free, clipped, loose):
        step(0, batch(lab))
    norm = next(free.readings()).norm
    assert next(clipped.readings()).norm == norm
    assert clipped.weights.norm().item() == pytest.approx(1e-3, rel=1e-6)
    assert loose.weights.norm().item() == norm


def test_a_step_that_is_not_finite_freezes_everything_from_then_on(lab) -> None:
    step = made(lab)
    step(0, batch(lab))
    before = {name: view.clone() for name, view in logical(step.model).items()}
    with torch.no_grad():
        gain = step.weights.masters["norm.gain"]
        kept = gain.clone()
        gain[0] = math.nan
    step(1, batch(lab))
    gain.copy_(kept)
    step(2, batch(lab))
    assert [reading.frozen for reading in step.readings()] == [False, True, True]
    after = logical(step.model)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_every_group_follows_the_schedule_at_its_own_rate(lab) -> None:
    step = made(lab, **{"optimizer": {"kind": "muon", "lr": 0.02, "adamw": {"lr": 0.004}}})
    for number, factor in enumerate((1.0, 0.5, 0.25)):
        step(number, batch(lab))
        rates = {name: group["lr"] for group in step.optimizer.param_groups for name in group["param_names"]}
        assert rates["embedding.weight"] == rates["norm.gain"] == 0.004 * factor
        assert {rate for name, rate in rates.items() if "layers.0" in name and "gain" not in name} == {0.02 * factor}


def test_readings_come_late_and_none_is_lost(lab) -> None:
    step = made(lab)
    for number in range(5):
        step(number, batch(lab))
    assert [reading.step for reading in step.readings(lag=3)] == [1, 2]
    assert [reading.step for reading in step.readings(lag=0)] == [3, 4, 5]


def test_the_interleaved_layout_of_rope_is_the_half_layout_with_rows_permuted(lab) -> None:
    """50 steps in float64; rows 2i, 2i + 1 of each head's W_q and W_k stand where the half layout has i, i + d/2."""
    half = made(lab, clip=1.0)
    interleaved = made(lab, clip=1.0, **{"model.position": {"kind": "rope", "layout": "interleaved"}})
    width = lab.spec.model.d_model
    heads = lab.spec.model.attention.n_heads
    order = torch.arange(width).view(heads, 2, -1).mT.flatten()
    for name, view in logical(interleaved.model).items():
        if "query" in name or "key" in name:
            view.copy_(logical(half.model)[name][order])
    losses = []
    for step in (half, interleaved):
        for number in range(50):
            step(number, torch.from_numpy(lab.batches.train(number)))
        losses.append([reading.loss for reading in step.readings()])
    assert losses[0][-1] < losses[0][0] - 0.5
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)
    for name, view in logical(interleaved.model).items():
        same = logical(half.model)[name]
        expected = same[order] if "query" in name or "key" in name else same
        torch.testing.assert_close(view, expected, rtol=1e-6, atol=1e-6)
