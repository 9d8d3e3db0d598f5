"""Feed-forward units against their formulas, and their widths."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from labkit.components.feedforward import (
    Bilinear,
    FeedForward,
    Geglu,
    Gelu,
    Glu,
    Reglu,
    Relu,
    Relu2,
    Silu,
    Swiglu,
)
from labkit.components.parameters import draw, logical
from labkit.components.place import Place

PLACE = Place(0, 1, 8)


def relu(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 0.0)


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def gelu(x: Tensor) -> Tensor:
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x: Tensor) -> Tensor:
    return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


PLAIN: list[tuple[FeedForward, Callable[[Tensor], Tensor]]] = [
    (Relu(), relu),
    (Relu2(), lambda x: relu(x) ** 2),
    (Gelu(), gelu),
    (Gelu(approximate="tanh"), gelu_tanh),
    (Silu(), lambda x: x * sigmoid(x)),
]
GATED: list[tuple[FeedForward, Callable[[Tensor], Tensor]]] = [
    (Glu(), sigmoid),
    (Bilinear(), lambda x: x),
    (Reglu(), relu),
    (Geglu(), gelu),
    (Geglu(approximate="tanh"), gelu_tanh),
    (Swiglu(), lambda x: x * sigmoid(x)),
]


def built(spec: FeedForward) -> tuple[torch.nn.Module, dict[str, Tensor], Tensor]:
    module = spec.build(16, PLACE).double()
    draw(module, 0, scale=lambda part: 0.5)
    weights = logical(module)
    for name, view in weights.items():
        if name.endswith("bias"):
            view.normal_()
    return module, weights, torch.randn(3, 16, dtype=torch.float64)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("spec", "activation"), PLAIN, ids=lambda value: getattr(value, "label", ""))
def test_a_plain_unit_is_its_formula(spec: FeedForward, activation: Callable[[Tensor], Tensor], bias: bool) -> None:
    module, w, x = built(spec.patched({"bias": bias}))
    up = x @ w["up.weight"].T + w.get("up.bias", 0)
    torch.testing.assert_close(module(x), activation(up) @ w["down.weight"].T + w.get("down.bias", 0))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("spec", "activation"), GATED, ids=lambda value: getattr(value, "label", ""))
def test_a_gated_unit_is_its_formula(spec: FeedForward, activation: Callable[[Tensor], Tensor], bias: bool) -> None:
    module, w, x = built(spec.patched({"bias": bias}))
    gate, up = (x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0) for name in ("gate", "up"))
    expected = (activation(gate) * up) @ w["down.weight"].T + w.get("down.bias", 0)
    torch.testing.assert_close(module(x), expected)


@pytest.mark.parametrize(
    ("spec", "width", "hidden"),
    [
        (Gelu(), 64, 256),
        (Swiglu(), 64, 176),  # 8/3 · 64 = 170.7, up to a multiple of 8
        (Swiglu(multiple_of=256), 768, 2048),
        (Swiglu(multiple_of=256), 256, 768),
        (Swiglu(multiplier=2, multiple_of=1), 100, 200),
        (Swiglu(d_ff=8192), 2048, 8192),
    ],
)
def test_the_hidden_width_follows_its_rule(spec, width: int, hidden: int) -> None:
    assert spec.hidden(width) == hidden


def test_gated_units_have_the_size_of_plain_ones() -> None:
    sizes = {
        spec.label: sum(stored.numel() for stored in spec.build(192, PLACE).parameters()) for spec, _ in PLAIN + GATED
    }
    assert set(sizes.values()) == {8 * 192 * 192}
