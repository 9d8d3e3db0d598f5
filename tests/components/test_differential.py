"""Differential attention against the paper's formula, head by head in float64."""

import math

import pytest
import torch

from labkit.components.differential import Differential, DifferentialAttention
from labkit.components.parameters import draw, logical
from labkit.components.place import Place
from labkit.components.position import NoPosition, Position, Rope


def built(spec: Differential, layer: int = 0, position: Position = NoPosition()) -> DifferentialAttention:  # noqa: B008
    module = spec.build(16, Place(layer, 6, 8), position, 0.0)
    draw(module, 0, scale=lambda part: 0.3)
    return module.double()


@pytest.mark.parametrize("layer", [0, 5])
def test_it_is_the_difference_of_two_maps_normed_and_scaled(layer: int) -> None:
    module, x = built(Differential(n_heads=4), layer, Rope()), torch.randn(2, 8, 16, dtype=torch.float64)
    w = logical(module)
    for view in w.values():
        view.normal_(std=0.4)
    rotary = Rope().rotary(2, Place(0, 6, 8))
    q, k = (rotary((x @ w[f"{name}.weight"].T).unflatten(-1, (8, 2))) for name in ("query", "key"))
    v = (x @ w["value.weight"].T).unflatten(-1, (4, 4))
    start = 0.8 - 0.6 * math.exp(-0.3 * layer)
    dots = [float(w[f"balance.query_{i}"] @ w[f"balance.key_{i}"]) for i in (1, 2)]
    balance = math.exp(dots[0]) - math.exp(dots[1]) + start
    future, gathered = torch.ones(8, 8, dtype=torch.bool).triu(1), []
    for head in range(4):
        maps = [
            (q[:, :, 2 * head + i] @ k[:, :, 2 * head + i].mT / math.sqrt(2))
            .masked_fill(future, -torch.inf)
            .softmax(-1)
            for i in (0, 1)
        ]
        y = (maps[0] - balance * maps[1]) @ v[:, :, head]
        y = y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w["head_norm.gain"]
        gathered.append((1 - start) * y)
    torch.testing.assert_close(module(x), torch.cat(gathered, -1) @ w["output.weight"].T)


def test_it_has_the_parameters_of_ordinary_attention_and_little_more() -> None:
    views = logical(built(Differential(n_heads=2)))
    assert [views[f"{name}.weight"].shape for name in ("query", "key", "value", "output")] == [(16, 16)] * 4
    assert sum(view.numel() for view in views.values()) == 4 * 16 * 16 + 4 * 4 + 8


def test_the_balance_starts_near_its_schedule_and_can_move_from_there() -> None:
    for layer in range(4):
        balance = built(Differential(n_heads=2), layer).balance
        assert balance().item() == pytest.approx(0.8 - 0.6 * math.exp(-0.3 * layer), abs=0.1)
        balance().backward()
        assert all(vector.grad.abs().min() > 0 for vector in balance.parameters())


def test_maps_drop_and_sink_each_for_itself() -> None:
    module = built(Differential(n_heads=2, sinks=True, softcap=5.0))
    assert {"first.softmax.sink", "second.softmax.sink"} < dict(module.named_parameters()).keys()
    assert module(torch.randn(2, 8, 16, dtype=torch.float64)).shape == (2, 8, 16)


def test_heads_that_do_not_fit_are_named_with_both_numbers() -> None:
    assert "2 · n_heads 3 does not divide d_model 16" in (Differential(n_heads=3).fault(16) or "")
    assert Differential(n_heads=3, head_dim=4).fault(16) is None
