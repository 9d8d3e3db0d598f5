"""AdamW against its formula, and what it takes from the step."""

import math

import pytest
import torch

from labkit.optim.optimizer import Adamw, Optimizer
from labkit.spec import Spec, ValidationError


def test_adamw_follows_its_formula() -> None:
    spec = Adamw(lr=0.01, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1)
    weight = torch.tensor([2.0, -3.0], dtype=torch.float64)
    optimizer = spec.build([weight], [])
    expected, m, v = weight.clone(), torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    for t in range(1, 6):
        gradient = torch.tensor([0.3 * t, -1.0], dtype=torch.float64)
        weight.grad = gradient.clone()
        optimizer.step()
        m, v = 0.8 * m + 0.2 * gradient, 0.9 * v + 0.1 * gradient**2
        hat_m, hat_v = m / (1 - 0.8**t), v / (1 - 0.9**t)
        expected = expected - 0.01 * (0.1 * expected + hat_m / (hat_v.sqrt() + 1e-3))
    torch.testing.assert_close(weight, expected, rtol=1e-12, atol=0)


def test_only_what_is_to_be_decayed_decays() -> None:
    matrix, gain = torch.ones(2, 2), torch.ones(2)
    optimizer = Adamw(lr=0.1, weight_decay=0.5).build([matrix], [gain])
    matrix.grad, gain.grad = torch.zeros(2, 2), torch.zeros(2)
    optimizer.step()
    torch.testing.assert_close(matrix, torch.full((2, 2), 0.95))
    assert torch.equal(gain, torch.ones(2))


def test_the_gradient_is_divided_by_the_scale_of_the_step() -> None:
    plain, scaled = torch.zeros(3), torch.zeros(3)
    for weight, gradient, scale in ((plain, 1.0, 1.0), (scaled, 8.0, 8.0)):
        optimizer = Adamw(eps=1.0).build([weight], [])
        weight.grad = torch.full((3,), gradient)
        optimizer.grad_scale, optimizer.found_inf = torch.tensor(scale), torch.tensor(0.0)  # type: ignore[attr-defined]
        optimizer.step()
    assert torch.equal(plain, scaled)
    assert plain[0] != 0


def test_a_raised_flag_freezes_weights_and_state() -> None:
    weight = torch.ones(3)
    optimizer = Adamw().build([weight], [])
    weight.grad = torch.ones(3)
    optimizer.step()
    before = {name: value.clone() for name, value in optimizer.state[weight].items()} | {"weight": weight.clone()}
    weight.grad = torch.full((3,), math.nan)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(1.0), torch.tensor(1.0)  # type: ignore[attr-defined]
    optimizer.step()
    after = {**optimizer.state[weight], "weight": weight}
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_an_optimizer_is_chosen_by_its_kind() -> None:
    class Holder(Spec):
        optimizer: Optimizer

    assert Holder.from_json({"optimizer": "adamw"}).optimizer == Adamw()


@pytest.mark.parametrize("fields", [{"lr": 0.0}, {"betas": (1.0, 0.9)}, {"eps": 0.0}, {"weight_decay": -1.0}])
def test_values_that_cannot_work_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Adamw(**fields)  # type: ignore[arg-type]
