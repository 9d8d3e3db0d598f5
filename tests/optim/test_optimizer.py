"""Every optimizer against its formula or torch's, and what it takes from the step."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from labkit.components.parameters import Role
from labkit.optim.guarded import Guarded
from labkit.optim.optimizer import Adafactor, Adamw, Lion, Muon, Optimizer, Sgd
from labkit.optim.weights import Weight
from labkit.spec import Spec, ValidationError

EVERY = [
    Adamw(),
    Sgd(),
    Sgd(nesterov=True),
    Lion(),
    Adafactor(),
    Muon(),
    Muon(adjust="original", nesterov=False),
]
every = pytest.mark.parametrize("spec", EVERY, ids=lambda spec: spec.label)


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def some(made, dtype: torch.dtype = torch.float64) -> list[Weight]:
    """One weight of each sort, one of them packed."""
    return [
        made(drawn(7, 4, seed=1, dtype=dtype), Role.EMBEDDING, name="embedding"),
        made(drawn(12, 4, seed=2, dtype=dtype), Role.QUERY, Role.KEY, Role.VALUE, name="project"),
        made(drawn(4, seed=3, dtype=dtype), Role.GAIN, name="gain"),
    ]


def gradients(weights: list[Weight], steps: int) -> Iterator[int]:
    """Gives every weight a gradient of its own at every step."""
    for step in range(steps):
        for number, weight in enumerate(weights):
            assert weight.value.grad is not None
            weight.value.grad.copy_(drawn(*weight.value.shape, seed=100 * step + number))
        yield step


def stepped(spec: Optimizer, weights: list[Weight], steps: int = 5) -> list[Tensor]:
    optimizer = spec.build(weights)
    for _ in gradients(weights, steps):
        optimizer.step()
    return [weight.value for weight in weights]


def scaled(optimizer: Any, scale: float = 1.0, found: float = 0.0) -> None:
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(scale), torch.tensor(found)


def test_adamw_follows_its_formula(made) -> None:
    spec = Adamw(lr=0.01, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1)
    weight = made(torch.tensor([[2.0, -3.0]], dtype=torch.float64), Role.UP)
    optimizer = spec.build([weight])
    expected, m, v = weight.value.clone(), torch.zeros(1, 2).double(), torch.zeros(1, 2).double()
    for t in range(1, 6):
        gradient = torch.tensor([[0.3 * t, -1.0]], dtype=torch.float64)
        weight.value.grad.copy_(gradient)
        optimizer.step()
        m, v = 0.8 * m + 0.2 * gradient, 0.9 * v + 0.1 * gradient**2
        hat_m, hat_v = m / (1 - 0.8**t), v / (1 - 0.9**t)
        expected = expected - 0.01 * (0.1 * expected + hat_m / (hat_v.sqrt() + 1e-3))
    torch.testing.assert_close(weight.value, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_sgd_is_that_of_torch(made, momentum: float, nesterov: bool) -> None:
    weights = some(made)
    copies = [weight.value.clone() for weight in weights]
    oracle = torch.optim.SGD(copies, lr=0.1, momentum=momentum, nesterov=nesterov)
    optimizer = Sgd(lr=0.1, momentum=momentum, nesterov=nesterov).build(weights)
    for _ in gradients(weights, 6):
        for copy, weight in zip(copies, weights, strict=True):
            copy.grad = weight.value.grad.clone()  # type: ignore[union-attr]
        optimizer.step()
        oracle.step()
    for copy, weight in zip(copies, weights, strict=True):
        torch.testing.assert_close(weight.value, copy, rtol=1e-12, atol=1e-14)


def test_lion_follows_its_formula(made) -> None:
    weight = made(drawn(3, 4), Role.UP)
    expected, m = weight.value.clone(), torch.zeros(3, 4, dtype=torch.float64)
    optimizer = Lion(lr=0.01, betas=(0.9, 0.97), weight_decay=0.5).build([weight])
    for _ in gradients([weight], 6):
        gradient = weight.value.grad
        optimizer.step()
        update = torch.sign(0.9 * m + (1 - 0.9) * gradient)
        expected = expected - 0.01 * (update + 0.5 * expected)
        m = 0.97 * m + (1 - 0.97) * gradient
    torch.testing.assert_close(weight.value, expected, rtol=1e-12, atol=0)


def test_adafactor_is_that_of_torch_per_logical_matrix(made) -> None:
    """While 1 / √t is above the rate, and no entry of v̂ is near the bound that torch puts on it."""
    weights = some(made)
    pieces = [piece for weight in weights for piece in weight.logical()]
    assert len(pieces) == 5
    copies = [piece.value.clone() for piece in pieces]
    decay = [{"params": copies[:4], "weight_decay": 0.1}, {"params": copies[4:], "weight_decay": 0.0}]
    oracle = torch.optim.Adafactor(decay, lr=0.05, eps=(1e-12, 1e-3), foreach=False)
    optimizer = Adafactor(lr=0.05, weight_decay=0.1).build(weights)
    for _ in gradients(weights, 10):
        for copy, piece in zip(copies, pieces, strict=True):
            copy.grad = piece.value.grad.clone()  # type: ignore[union-attr]
        optimizer.step()
        oracle.step()
    for copy, piece in zip(copies, pieces, strict=True):
        torch.testing.assert_close(piece.value, copy, rtol=1e-6, atol=1e-9)


def test_adafactor_follows_the_papers_algorithm(made) -> None:
    weight = made(drawn(3, 5), Role.UP)
    expected = weight.value.clone()
    row, column = torch.zeros(3, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)
    optimizer = Adafactor(lr=0.3, clip=0.7).build([weight])
    for step in gradients([weight], 8):
        square, beta = weight.value.grad**2 + 1e-30, 1 - (step + 1) ** -0.8
        row = beta * row + (1 - beta) * square.sum(1)
        column = beta * column + (1 - beta) * square.sum(0)
        update = weight.value.grad / (torch.outer(row, column) / row.sum()).sqrt()
        update = update / max(1.0, update.square().mean().sqrt().item() / 0.7)
        expected = expected - 0.3 * max(1e-3, expected.square().mean().sqrt().item()) * update
        optimizer.step()
    torch.testing.assert_close(weight.value, expected, rtol=1e-6, atol=0)


def test_adafactor_moves_what_starts_at_zero(made) -> None:
    weight = made(torch.zeros(4), Role.BIAS)
    stepped(Adafactor(lr=0.1), [weight], steps=1)
    torch.testing.assert_close(weight.value.abs(), torch.full((4,), 1e-4))


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("adjust", ["original", "match_rms_adamw"])
def test_muon_is_that_of_torch_per_logical_matrix(made, adjust: Any, nesterov: bool) -> None:
    """torch's makes its products in bf16, as a bf16 run does; one rounding of 40 steps may tip another way."""
    packed = made(drawn(24, 16).float(), Role.GATE, Role.UP, name="packed", compute=torch.bfloat16)
    down = made(drawn(16, 12).float(), Role.DOWN, name="down", compute=torch.bfloat16)
    gain = made(torch.ones(4), Role.GAIN, name="gain")
    pieces = [*packed.logical(), down]
    copies = [piece.value.clone() for piece in pieces]
    rates: dict[str, Any] = {"lr": 0.02, "weight_decay": 0.2, "momentum": 0.9, "nesterov": nesterov}
    oracle = torch.optim.Muon(copies, adjust_lr_fn=adjust, **rates)
    optimizer = Muon(adjust=adjust, **rates).build([packed, down, gain])
    for _ in gradients([packed, down, gain], 10):
        for copy, piece in zip(copies, pieces, strict=True):
            copy.grad = piece.value.grad.clone()  # type: ignore[union-attr]
        optimizer.step()
        oracle.step()
    for copy, piece, start in zip(copies, pieces, (drawn(24, 16)[:12], drawn(24, 16)[12:], drawn(16, 12)), strict=True):
        moved = (copy - start.float()).norm()
        assert (piece.value - copy).norm() < 0.01 * moved


def test_muon_takes_matrices_apart_that_share_a_tensor(made) -> None:
    packed = made(drawn(12, 4), Role.QUERY, Role.KEY, Role.VALUE, name="packed")
    apart = [made(rows.clone(), Role.QUERY, name=str(k)) for k, rows in enumerate(drawn(12, 4).split(4))]
    gain = made(torch.ones(4), Role.GAIN, name="gain")
    one, three = Muon().build([packed, gain]), Muon().build([*apart, gain])
    for _ in gradients([packed], 3):
        for weight, gradient in zip(apart, packed.value.grad.split(4), strict=True):
            weight.value.grad.copy_(gradient)
        one.step()
        three.step()
    torch.testing.assert_close(packed.value, torch.cat([weight.value for weight in apart]), rtol=1e-12, atol=1e-14)


def test_an_update_of_muon_has_the_size_its_adjustment_promises(made) -> None:
    """0.2 a weight, as AdamW's are; or the spectral norm √(R / C) of a tall matrix: with p(s) = s left as it is."""
    gradient = torch.linalg.qr(drawn(32, 8)).Q
    for spec, size in ((Muon(), 0.2), (Muon(adjust="original"), 2.0)):
        weight, gain = made(torch.zeros(32, 8).double(), Role.UP), made(torch.ones(4), Role.GAIN, name="gain")
        optimizer = spec.patched({"lr": 1.0, "coefficients": (1.875, -1.25, 0.375), "iterations": 30}).build(
            [weight, gain]
        )
        weight.value.grad.copy_(gradient)
        optimizer.step()
        found = weight.value.square().mean().sqrt() if size == 0.2 else torch.linalg.matrix_norm(weight.value, 2)
        assert found.item() == pytest.approx(size)


def test_muon_leaves_embeddings_head_and_vectors_to_adamw_at_its_own_rate(made) -> None:
    adamw = Adamw(lr=0.03, weight_decay=0.5)
    roles = (Role.EMBEDDING, Role.HEAD, Role.GAIN, Role.BIAS)
    ours, theirs = (
        [
            made(drawn(3, 3, seed=k) if role.is_matrix else drawn(3, seed=k), role, name=role)
            for k, role in enumerate(roles)
        ]
        for _ in range(2)
    )
    hidden = made(drawn(3, 3), Role.DOWN, name="hidden")
    found, expected = stepped(Muon(lr=1.0, adamw=adamw), [*ours, hidden]), stepped(adamw, theirs)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=False))


@every
def test_only_matrices_decay(made, spec: Optimizer) -> None:
    weights = some(made)
    before = [weight.value.clone() for weight in weights]
    changes = {"lr": 0.1, "weight_decay": 0.5} | (
        {"adamw.lr": 0.1, "adamw.weight_decay": 0.5} if spec.kind == "muon" else {}
    )
    spec.patched(changes).build(weights).step()
    for weight, start in zip(weights, before, strict=True):
        torch.testing.assert_close(weight.value, start * (0.95 if weight.is_matrix else 1.0), rtol=1e-12, atol=0)


@every
def test_the_gradient_is_divided_by_the_scale_of_the_step(made, spec: Optimizer) -> None:
    ends = []
    for factor in (1.0, 8.0):
        weights = some(made)
        optimizer = spec.build(weights)
        for step in gradients(weights, 3):
            scale = 1.0 + step * (factor - 1.0)
            for weight in weights:
                weight.value.grad.mul_(scale)  # type: ignore[union-attr]
            scaled(optimizer, scale)
            optimizer.step()
        ends.append([weight.value for weight in weights])
    for plain, large, start in zip(*ends, some(made), strict=True):
        torch.testing.assert_close(large, plain, rtol=1e-9, atol=1e-9)
        assert not torch.equal(plain, start.value)


@every
@pytest.mark.parametrize("after", [0, 2])
def test_a_raised_flag_freezes_weights_and_state(made, spec: Optimizer, after: int) -> None:
    weights = some(made, torch.float32)
    optimizer = spec.build(weights)
    for _ in gradients(weights, after):
        scaled(optimizer)
        optimizer.step()

    def everything() -> dict[object, Tensor]:
        kept = {(tensor, key): value.clone() for tensor, kept in optimizer.state.items() for key, value in kept.items()}
        return kept | {weight.name: weight.value.clone() for weight in weights}

    before = everything()
    for weight in weights:
        weight.value.grad.fill_(math.nan)  # type: ignore[union-attr]
    scaled(optimizer, math.nan, found=1.0)
    optimizer.step()
    later = everything()
    assert all(torch.equal(before[key], later[key]) for key in before)
    assert all(value.isfinite().all() for value in later.values())


@every
def test_a_step_repeats_bit_for_bit(made, spec: Optimizer) -> None:
    first, second = (stepped(spec, some(made, torch.float32)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("spec", [spec for spec in EVERY if spec.kind != "adamw"], ids=lambda spec: spec.label)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_rule_asks_for_no_value_and_takes_its_rate_from_the_device(spec: Any, dtype: torch.dtype, made) -> None:
    """On `meta` there are no values to ask for."""
    weights = [made(torch.empty(8, 4, dtype=dtype, device="meta"), Role.UP)]
    weights += [made(torch.empty(4, dtype=dtype, device="meta"), Role.GAIN)] if spec.kind != "muon" else []
    optimizer = Guarded(spec, weights, 0.1)
    optimizer.grad_scale = optimizer.found_inf = torch.ones((), device="meta")
    for group in optimizer.param_groups:
        group["lr"] = torch.ones((), device="meta")
    optimizer.step()
    assert all(value.is_meta for kept in optimizer.state.values() for value in kept.values())


@every
def test_a_tensor_as_rate_gives_what_a_number_gives(made, spec: Optimizer) -> None:
    ends = []
    for kind in (float, torch.tensor):
        weights = some(made)
        optimizer = spec.build(weights)
        for group in optimizer.param_groups:
            group["lr"] = kind(2.0**-8)
        for _ in gradients(weights, 2):
            optimizer.step()
        ends.append([weight.value for weight in weights])
    for number, tensor in zip(*ends, strict=True):
        torch.testing.assert_close(tensor, number, rtol=1e-12, atol=1e-14)


def test_every_variant_is_tried_here_and_says_what_it_does_in_one_line() -> None:
    assert {spec.kind for spec in EVERY} == set(Optimizer.variants)
    for variant in Optimizer.variants.values():
        (line,) = (variant.__doc__ or "").strip().splitlines()
        assert line.endswith(".")


@pytest.mark.parametrize("kind", list(Optimizer.variants))
def test_an_optimizer_is_chosen_by_its_kind_and_survives_json(kind: str) -> None:
    class Holder(Spec):
        optimizer: Optimizer

    held = Holder.from_json({"optimizer": kind})
    assert held.optimizer == Optimizer.variants[kind]()
    assert Holder.from_json(held.as_json()) == held


def test_the_rate_of_the_rest_is_a_field_of_muon() -> None:
    class Holder(Spec):
        optimizer: Optimizer

    spec = Holder.from_json({"optimizer": "muon"}).patched({"optimizer.adamw.lr": 0.5}).optimizer
    assert isinstance(spec, Muon)
    assert (spec.lr, spec.adamw.lr) == (1e-3, 0.5)


@pytest.mark.parametrize("fields", [{"lr": 0.0}, {"betas": (1.0, 0.9)}, {"eps": 0.0}, {"weight_decay": -1.0}])
def test_values_that_cannot_work_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Adamw(**fields)  # type: ignore[arg-type]


def test_an_eps_that_fp32_does_not_hold_would_divide_zero_by_zero_and_is_refused() -> None:
    with pytest.raises(ValidationError, match="fp32"):
        Adamw(eps=1e-50)


def test_iterations_that_would_never_end_are_refused() -> None:
    with pytest.raises(ValidationError, match="less than or equal to 100"):
        Muon(iterations=2**31)
