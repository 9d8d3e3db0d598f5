"""Norms against torch's own, or their formulas in float64."""

import pytest
import torch
from torch import nn

from labkit.components.norm import Dyt, Layer, NoNorm, Norm, NormModule, Rms, Scale
from labkit.components.place import Place

PLACE = Place(0, 1, 8)


@pytest.mark.parametrize(
    ("spec", "oracle"),
    [
        (Rms(eps=1e-3), nn.RMSNorm(16, eps=1e-3)),
        (Rms(eps=1e-3, gain=False), nn.RMSNorm(16, eps=1e-3, elementwise_affine=False)),
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


def gemma(x, w):
    return x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt() * (1 + w)


def dyt(x, alpha, gain, bias):
    return (torch.exp(2 * alpha * x) - 1) / (torch.exp(2 * alpha * x) + 1) * gain + bias


def scale(x, g):
    return g * x / x.square().sum(-1, keepdim=True).sqrt()


@pytest.mark.parametrize(
    ("spec", "formula", "start"),
    [
        (Rms(eps=1e-3, casting="gemma"), gemma, [0.0]),
        (Dyt(alpha=0.7), dyt, [0.7, 1.0, 0.0]),
        (Scale(), scale, [4.0]),
    ],
)
def test_a_norm_is_its_formula_and_starts_as_the_paper_says(spec: Norm, formula, start: list[float]) -> None:
    module = spec.build(16, PLACE)
    assert [stored.unique().item() for stored in module.parameters()] == pytest.approx(start)
    weights = [nn.init.normal_(stored).detach() for stored in module.double().parameters()]
    x = torch.randn(2, 5, 16, dtype=torch.float64) * 3 + 1
    torch.testing.assert_close(module(x), formula(x, *weights))


def test_scale_norm_of_nothing_is_nothing() -> None:
    x = torch.zeros(2, 16, requires_grad=True)
    out = Scale().build(16, PLACE)(x)
    out.sum().backward()
    assert (out == 0).all()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("spec", [Rms(), Rms(casting="gemma"), Layer(), Scale()])
def test_statistics_are_taken_in_fp32(spec: Norm) -> None:
    x, module = torch.randn(4, 64) * 100, spec.build(64, PLACE)
    exact = module(x.bfloat16().double())
    assert (module(x.bfloat16()).double() - exact).abs().max() / exact.abs().max() < 2**-8


def test_llama_rounds_before_the_gain_and_gemma_after_it() -> None:
    x, gains = torch.randn(64, 64).bfloat16(), torch.rand(64) + 0.5
    llama, gemma = Rms().build(64, PLACE), Rms(casting="gemma").build(64, PLACE)
    llama.gain.data, gemma.gain.data = gains.clone(), gains - 1
    normed = x.float() * (x.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    assert torch.equal(llama(x), gains.bfloat16() * normed.bfloat16())
    assert torch.equal(gemma(x), ((1 + (gains - 1)) * normed).bfloat16())
    assert not torch.equal(llama(x), gemma(x))


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
