"""Feed-forward units against their formulas, and their widths."""

import pytest
import torch
import torch.nn.functional as F

from labkit.components.feedforward import Gelu, Swiglu
from labkit.components.parameters import draw, logical
from labkit.components.place import Place

PLACE = Place(0, 1, 8)


def test_swiglu_is_its_formula() -> None:
    module = Swiglu(d_ff=24).build(16, PLACE).double()
    draw(module, 0, scale=lambda part: 0.5)
    w = logical(module)
    x = torch.randn(3, 16, dtype=torch.float64)
    gate, up = x @ w["gate.weight"].T, x @ w["up.weight"].T
    torch.testing.assert_close(module(x), (gate * torch.sigmoid(gate) * up) @ w["down.weight"].T)


@pytest.mark.parametrize(("approximate", "torch_name"), [("erf", "none"), ("tanh", "tanh")])
def test_gelu_is_its_formula(approximate: str, torch_name: str) -> None:
    module = Gelu(approximate=approximate, bias=True).build(16, PLACE).double()
    draw(module, 0, scale=lambda part: 0.5)
    w = logical(module)
    x = torch.randn(3, 16, dtype=torch.float64)
    torch.testing.assert_close(module(x), F.gelu(x @ w["up.weight"].T, approximate=torch_name) @ w["down.weight"].T)


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
