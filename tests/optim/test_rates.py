"""The rates of parts that have grown, held to what they are for: a step changes what they compute as at base width."""

import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from labkit.components.growth import NONE, Growth
from labkit.components.parameters import Part, Role
from labkit.optim.optimizer import Adafactor, Adamw, Lion, Muon, Optimizer, Sgd
from labkit.optim.weights import Weight

ROWS, COLUMNS, M = 12, 16, 4
SIGMA, SIZE = 0.02, 1e-3
"""Of initial values and of the gradient's entries, at base width."""

ADAMW = Adamw(weight_decay=0.0, eps=SIZE)
EVERY: list[Optimizer] = [
    ADAMW,
    Sgd(),
    Lion(weight_decay=0.0),
    Adafactor(),
    Muon(weight_decay=0.0, adamw=ADAMW),
    Muon(weight_decay=0.0, adjust="original", adamw=ADAMW),
]


class Kind(NamedTuple):
    """A part by what theory says of it."""

    role: Role
    growth: Growth
    spread: float
    """Of its initial values, in multiples of base width."""
    gradient: float
    """Of its gradient's entries."""


KINDS = {
    "hidden": Kind(Role.UP, Growth(M, M), 1 / math.sqrt(M), 1 / M),
    "router": Kind(Role.ROUTER, Growth(M, 1), 1 / M, 1.0),
    "head": Kind(Role.HEAD, Growth(M, 1, M), 1.0, 1 / M),
    "embedding": Kind(Role.EMBEDDING, Growth(1, M), 1.0, 1 / M),
    "bias": Kind(Role.BIAS, Growth(1, M), 0.0, 1 / M),
    "gain": Kind(Role.GAIN, Growth(1, M), 1.0, 1 / M),
}


def signs(*shape: int) -> Tensor:
    return torch.randint(2, shape, generator=torch.Generator().manual_seed(0)).double() * 2 - 1


def company() -> list[Weight]:
    """A hidden matrix and a gain: muon steps some of both."""
    values = {Role.UP: signs(2, 2), Role.GAIN: signs(2)}
    for value in values.values():
        value.grad = torch.zeros_like(value)
    return [Weight(role, value, (Part(role, 2, 2),), torch.float64) for role, value in values.items()]


def moved(optimizer: Optimizer, kind: Kind, growth: Growth, spread: float, gradient: float) -> float:
    """The spectral norm of what one step changes, as the forward pass sees it."""
    is_table, is_vector = kind.role is Role.EMBEDDING, not kind.role.is_matrix
    if is_table:
        shape: tuple[int, ...] = (ROWS, int(COLUMNS * growth.fan_out))
    else:
        shape = (int(ROWS * growth.fan_out), int(COLUMNS * growth.fan_in))[: 1 if is_vector else 2]
    fan_in = shape[-1] if kind.role.is_matrix and not is_table else 1
    part = Part(kind.role, shape[0], fan_in, growth=growth)
    value = SIGMA * spread * signs(*shape)
    if is_table:  # one token's row
        value.grad = torch.zeros(shape).double()
        value.grad[3] = SIZE * gradient * signs(shape[1])
    else:  # of one token's activations
        rows, columns = signs(shape[0]), signs(shape[-1])
        value.grad = SIZE * gradient * (rows if is_vector else rows[:, None] * columns)
    before = value.clone()
    optimizer.build([Weight("w", value, (part,), torch.float64), *company()]).step()
    change = (value - before).view(shape[0], -1)
    change = change.T if is_table else change
    return torch.linalg.matrix_norm(change, 2).item() / growth.divisor


@pytest.mark.parametrize("optimizer", EVERY, ids=lambda optimizer: optimizer.label[:20])
@pytest.mark.parametrize("name", list(KINDS))
def test_a_step_changes_what_a_wider_part_computes_by_as_much(name: str, optimizer: Optimizer) -> None:
    kind = KINDS[name]
    at_base = moved(optimizer, kind, NONE, 0.0 if kind.spread == 0.0 else 1.0, 1.0)
    grown = moved(optimizer, kind, kind.growth, kind.spread, kind.gradient)
    wanted = math.sqrt(kind.growth.fan_out / kind.growth.fan_in)
    assert grown / at_base == pytest.approx(wanted, rel=1e-6), (grown, at_base)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "bias"])
def test_a_growth_tells_the_size_of_initial_values_and_gradients(name: str) -> None:
    kind = KINDS[name]
    assert kind.growth.gradient == kind.gradient
    if kind.role.is_matrix:
        assert kind.growth.spread == kind.spread
    back = Growth(1 / kind.growth.fan_in, 1 / kind.growth.fan_out, 1 / kind.growth.divisor)
    if kind.role.is_matrix:
        assert back.spread == 1 / kind.spread


@pytest.mark.parametrize("optimizer", EVERY, ids=lambda optimizer: optimizer.label[:20])
def test_what_has_not_grown_moves_at_the_rate_itself(optimizer: Any) -> None:
    assert optimizer.rate(Part(Role.UP, 48, 16)) == 1.0


def test_parts_that_lie_in_one_tensor_and_differ_in_rate_move_as_they_would_apart() -> None:
    """Queries grow on both sides, the gates of a head only in fan-in: the gradients' sizes differ, and so does eps."""
    parts = [Part(Role.QUERY, 8, 16, "query", Growth(4, 4)), Part(Role.GATE, 2, 16, "gate", Growth(4, 1))]
    packed, gradient = signs(10, 16) * SIGMA, torch.randn(10, 16, generator=torch.Generator().manual_seed(1)).double()
    apart = [(piece.clone(), part) for piece, part in zip(packed.split((8, 2)), parts, strict=True)]
    packed.grad = gradient.clone()
    optimizer = Adamw(eps=0.1).build([Weight("w", packed, tuple(parts), torch.float64)])
    assert [group["eps"] for group in optimizer.param_groups] == [0.025, 0.1]
    optimizer.step()
    for (value, part), piece in zip(apart, gradient.split((8, 2)), strict=True):
        value.grad = piece.clone()
        Adamw(eps=0.1).build([Weight("w", value, (part,), torch.float64)]).step()
    assert torch.equal(packed, torch.cat([value for value, _ in apart]))
