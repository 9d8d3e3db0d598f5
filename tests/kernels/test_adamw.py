"""AdamW in one launch, and the norm that it clips by."""

import copy
import math

import pytest
import torch

from labkit.kernels.adamw import Slot, Table, adamw
from labkit.kernels.grad_norm import grad_norm
from labkit.kernels.launch import using

SHAPES = [(70, 100), (33,), (1,)]


def slots(device, *, gradients=torch.float32, copies=(torch.bfloat16, None, None)) -> list[Slot]:
    made = []
    for group, (shape, kind) in enumerate(zip(SHAPES, copies, strict=True)):
        master, mean, square = (torch.randn(shape, device=device) for _ in range(3))
        rounded = None if kind is None else master.to(kind)
        made.append(
            Slot(master, torch.randn(shape, device=device).to(gradients), mean, square.square(), rounded, group % 2)
        )
    return made


def options(device, **changed):
    base = {
        "rates": torch.tensor([[1e-2, 3e-3], [2e-2, 1e-3]], device=device),
        "decays": torch.tensor([0.1, 0.0], device=device),
        "step": torch.tensor(2, device=device),
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "norm": torch.tensor(8.0, device=device),
        "clip": 1.0,
        "frozen": torch.zeros((), device=device),
    }
    return {**base, **changed}


@pytest.mark.parametrize("gradients", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("kernels", ["triton", "torch"])
def test_an_update_is_that_of_torch(device, near, gradients, kernels: str) -> None:
    made = slots(device, gradients=gradients)
    before = copy.deepcopy(made)
    exact = [slot.master.double() for slot in made]
    with using(kernels):
        adamw(Table(made), **options(device))
    for weight, old, new in zip(exact, before, made, strict=True):
        lr = (2e-2, 1e-3)[old.group]
        oracle = torch.optim.AdamW([weight], lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=(0.1, 0.0)[old.group])
        weight.grad = old.gradient.double() / 8
        oracle.state[weight] = {
            "step": torch.tensor(1.0),
            "exp_avg": old.mean.double(),
            "exp_avg_sq": old.square.double(),
        }
        oracle.step()
        near(new.master, weight)
        near(new.master - old.master, weight - old.master.double(), 100)
        near(new.mean, oracle.state[weight]["exp_avg"])
        near(new.square, oracle.state[weight]["exp_avg_sq"])
        if new.copy is not None:
            near(new.copy, new.master.double())


@pytest.mark.parametrize("kernels", ["triton", "torch"])
def test_while_frozen_nothing_changes(device, kernels: str) -> None:
    made = slots(device)
    before = copy.deepcopy(made)
    made[0].gradient[0, 0] = before[0].gradient[0, 0] = math.inf
    with using(kernels):
        adamw(
            Table(made),
            **options(device, frozen=torch.ones((), device=device), norm=torch.tensor(math.inf, device=device)),
        )
    for old, new in zip(before, made, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(old[:4], new[:4], strict=True))


def test_a_small_gradient_is_not_clipped(device) -> None:
    once, twice = slots(device), None
    twice = copy.deepcopy(once)
    adamw(Table(once), **options(device, norm=torch.tensor(0.5, device=device)))
    adamw(Table(twice), **options(device, clip=None))
    assert all(torch.equal(a.master, b.master) for a, b in zip(once, twice, strict=True))


def test_the_first_step_is_corrected_exactly(device, near) -> None:
    master, zero = torch.zeros(64, device=device), torch.zeros(64, device=device)
    gradient = torch.randn(64, device=device)
    table = Table([Slot(master, gradient, zero, zero.clone(), None, 0)])
    once = {"rates": torch.ones(1, 1, device=device), "decays": torch.zeros(1, device=device), "eps": 1e-12}
    adamw(table, **options(device, step=torch.tensor(1, device=device), clip=None, **once))
    near(master, -gradient.double().sign())


def test_beyond_the_table_the_last_rates_hold(device) -> None:
    one, two = slots(device), None
    two = copy.deepcopy(one)
    late = {"step": torch.tensor(9, device=device)}
    adamw(Table(one), **options(device, **late))
    adamw(Table(two), **options(device, rates=torch.tensor([[2e-2, 1e-3]], device=device), **late))
    assert all(torch.equal(a.master, b.master) for a, b in zip(one, two, strict=True))


def test_unaligned_places_in_a_flat_gradient(device) -> None:
    made = slots(device)
    flat = torch.randn(1 + sum(slot.master.numel() for slot in made), device=device)
    places = flat[1:].split([slot.master.numel() for slot in made])
    apart = [
        slot._replace(gradient=place.clone().view_as(slot.master))
        for slot, place in zip(copy.deepcopy(made), places, strict=True)
    ]
    flatly = [slot._replace(gradient=place.view_as(slot.master)) for slot, place in zip(made, places, strict=True)]
    for each in (apart, flatly):
        adamw(Table(each), **options(device))
    assert all(torch.equal(a.master, b.master) for a, b in zip(apart, flatly, strict=True))


def test_double_precision_is_stepped_too(device) -> None:
    master = torch.zeros(5, dtype=torch.float64, device=device)
    slot = Slot(master, torch.ones_like(master), torch.zeros_like(master), torch.zeros_like(master), None, 0)
    adamw(Table([slot]), **options(device, step=torch.tensor(1, device=device)))
    assert torch.allclose(master, torch.full_like(master, -1e-2))


@pytest.mark.parametrize("shape", [(3,), (70, 100), (40_000,)])
def test_the_norm_is_that_of_float64_and_repeats(device, near, shape) -> None:
    gradient = torch.randn(shape, device=device)
    near(grad_norm(gradient), gradient.double().norm())
    assert torch.equal(grad_norm(gradient), grad_norm(gradient))
    near(grad_norm(gradient.bfloat16()).bfloat16(), gradient.double().norm())


def test_a_norm_that_is_not_finite_says_so(device) -> None:
    gradient = torch.randn(5000, device=device)
    gradient[4999] = math.nan
    assert grad_norm(gradient).isnan()
    gradient[4999] = math.inf
    assert grad_norm(gradient).isinf()


def test_offsets_beyond_31_bits(cuda) -> None:
    count = 2**31 + 5000
    master, mean, square = (torch.zeros(count, device=cuda) for _ in range(3))
    gradient = torch.zeros(count, device=cuda)
    gradient[-7:] = 3.0
    assert abs(grad_norm(gradient).item() - 3 * math.sqrt(7)) < 1e-5
    copied = torch.zeros(count, device=cuda, dtype=torch.bfloat16)
    table = Table([Slot(master, gradient, mean, square, copied, 0)])
    adamw(table, **options(cuda, step=torch.tensor(1, device=cuda), clip=None))
    assert torch.allclose(master[-7:], torch.full((7,), -1e-2, device=cuda))
    assert torch.equal(copied[-7:], master[-7:].bfloat16())
    assert not master[:-7].any()
