"""Norms against torch's own."""

import pytest
import torch
from torch import nn

from labkit.components.norm import Layer, NoNorm, NormModule, Rms
from labkit.components.place import Place

PLACE = Place(0, 1, 8)


@pytest.mark.parametrize(
    ("spec", "oracle"),
    [
        (Rms(eps=1e-3), nn.RMSNorm(16, eps=1e-3)),
        (Layer(eps=1e-3), nn.LayerNorm(16, eps=1e-3)),
        (Layer(eps=1e-3, bias=False), nn.LayerNorm(16, eps=1e-3, bias=False)),
        (NoNorm(), nn.Identity()),
    ],
)
def test_a_norm_is_that_of_torch(spec, oracle: nn.Module) -> None:
    module = spec.build(16, PLACE).double()
    for ours, theirs in zip(module.parameters(), oracle.parameters(), strict=True):
        theirs.data = torch.nn.init.normal_(ours).detach().clone()
    x = torch.randn(2, 5, 16, dtype=torch.float64) * 3 + 1
    torch.testing.assert_close(module(x), oracle.double()(x))


def test_statistics_are_taken_in_fp32() -> None:
    x = torch.randn(4, 64) * 100
    exact = Rms().build(64, PLACE)(x.double())
    error = (Rms().build(64, PLACE)(x.bfloat16()).double() - Rms().build(64, PLACE)(x.bfloat16().double())).abs().max()
    assert error / exact.abs().max() < 2**-8


def test_adding_and_norming_gives_the_sum_and_its_norm_for_each_use() -> None:
    module = Rms().build(16, PLACE)
    a, b = torch.randn(2, 3, 16)
    total, first, second = module.added(a, b, uses=2)
    torch.testing.assert_close(total, a + b)
    torch.testing.assert_close(first, module(a + b))
    assert second is first


def test_a_norm_of_ten_lines_inherits_the_joint() -> None:
    class Halve(NormModule):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / 2

    total, normed = Halve().added(torch.ones(2), torch.ones(2))
    assert (total.tolist(), normed.tolist()) == ([2.0, 2.0], [1.0, 1.0])
