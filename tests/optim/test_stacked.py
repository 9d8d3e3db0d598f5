"""Muon on stacks of matrices, against the rule on each by itself."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from labkit.components.parameters import Role
from labkit.kernels import on_device, using
from labkit.optim.guarded import Guarded, Together
from labkit.optim.optimizer import Muon
from labkit.optim.stacked import Stacked
from labkit.optim.stepper import Stepper
from labkit.optim.weights import Weight

Made = Callable[..., Weight]

TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 0.01}


@pytest.fixture(params=[pytest.param("cuda", marks=pytest.mark.gpu)] if torch.cuda.is_available() else ["cpu"])
def device(request: pytest.FixtureRequest) -> torch.device:
    with using("triton"):
        if on_device(torch.device(request.param)) == "torch":
            pytest.skip("there is no Triton")
    return torch.device(request.param)


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def some(made: Made, device: torch.device, compute: torch.dtype) -> list[Weight]:
    """Packed ones, a tall and a wide one, one whose rows are not a multiple of 16 bytes, a stack of experts."""
    shapes = [((24, 16), (Role.QUERY, Role.KEY, Role.VALUE)), ((20, 8), (Role.UP,)), ((8, 20), (Role.DOWN,))]
    shapes += [((5, 3), (Role.OUTPUT,)), ((2, 8, 20), (Role.DOWN,))]
    weights: list[Weight] = []
    for seed, (shape, roles) in enumerate(shapes):
        value = drawn(*shape, seed=seed).to(device)
        weight = made(value, *roles, name=str(seed), compute=compute)
        copy = None if compute == torch.float32 else torch.zeros_like(value, dtype=compute)
        weights.append(Weight(weight.name, value, weight.parts, compute, copy))
    return weights


def run(stepper: Stepper, weights: list[Weight], steps: int = 4) -> None:
    stepper.grad_scale, stepper.found_inf = (torch.full((), x, device=weights[0].value.device) for x in (1.7, 0.0))
    for step in range(steps):
        for seed, weight in enumerate(weights):
            assert weight.value.grad is not None
            weight.value.grad.copy_(drawn(*weight.value.shape, seed=100 * step + seed))
        stepper.step()


@pytest.mark.parametrize("compute", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("nesterov", [True, False])
def test_stacks_move_as_each_matrix_does_by_itself(
    made: Made, device: torch.device, nesterov: bool, compute: torch.dtype
) -> None:
    spec = Muon(lr=0.02, nesterov=nesterov, adjust="original")
    apart, together = some(made, device, compute), some(made, device, compute)
    alone, stacked = (
        kind(spec, [piece for weight in weights for piece in weight.logical()], 0.1)
        for kind, weights in ((Guarded, apart), (Stacked, together))
    )
    run(alone, apart)
    run(stacked, together)
    for one, other in zip(apart, together, strict=True):
        moved = (one.value - drawn(*one.value.shape, seed=int(one.name)).to(device)).norm()
        assert (one.value - other.value).norm() < TOLERANCES[compute] * moved
        if other.copy is not None:
            torch.testing.assert_close(other.copy, other.value.to(compute), rtol=2**-7, atol=0)
    for (_, one), (_, other) in zip(alone.state.items(), stacked.state.items(), strict=True):
        torch.testing.assert_close(one["momentum"], other["momentum"])


def test_a_frozen_step_changes_nothing(made: Made, device: torch.device) -> None:
    weights = some(made, device, torch.float32)
    stepper = Stacked(Muon(lr=0.02), [piece for weight in weights for piece in weight.logical()], 0.1)
    run(stepper, weights)
    before = [weight.value.clone() for weight in weights]
    means = [state["momentum"].clone() for state in stepper.state.values()]
    stepper.found_inf.fill_(1.0)
    assert weights[0].value.grad is not None
    weights[0].value.grad.fill_(torch.nan)
    stepper.step()
    assert all(torch.equal(old, weight.value) for old, weight in zip(before, weights, strict=True))
    assert all(torch.equal(old, state["momentum"]) for old, state in zip(means, stepper.state.values(), strict=True))


def test_muon_stacks_where_there_are_kernels(made: Made, device: torch.device) -> None:
    weights, gain = some(made, device, torch.float32), made(torch.ones(4, device=device), Role.GAIN, name="gain")
    with using("triton"):
        assert isinstance(hidden(Muon().build([*weights, gain])), Stacked)
    with using("torch"):
        assert isinstance(hidden(Muon().build([*weights, gain])), Guarded)


def hidden(stepper: Stepper) -> Stepper:
    assert isinstance(stepper, Together)
    return stepper.steppers[0]
