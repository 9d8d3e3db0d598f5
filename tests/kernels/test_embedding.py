"""The embedding's gradient, summed in a fixed order."""

import sys

import pytest
import torch

from labkit.kernels.embedding import embedding
from labkit.kernels.gradient import Gathering


@pytest.fixture(autouse=True)
def pieces(monkeypatch) -> None:
    """Small enough that sums cross several of them."""
    module = sys.modules["labkit.kernels.embedding"]
    monkeypatch.setattr(module, "PIECE", 4)
    monkeypatch.setattr(module, "STRIDE", 2)


def summed(tokens, dx, vocab):
    out = torch.zeros(vocab, dx.shape[-1], dtype=torch.float64, device=dx.device)
    return out.index_add_(0, tokens.flatten(), dx.flatten(0, -2).double())


TOKENS = {
    "all alike": lambda count: torch.full((count,), 3),
    "all apart": torch.randperm,
    "a few": lambda count: torch.randint(0, 3, (count,)),
    "like words": lambda count: (count ** torch.rand(count)).long().clamp(max=count - 1),
}


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("count", [1, 4, 37])
def test_the_gradient_is_that_of_float64(device, dtype, near, tokens: str, count: int) -> None:
    ids = TOKENS[tokens](count).to(device)
    weight = torch.randn(40, 12, device=device, dtype=dtype, requires_grad=True)
    x = embedding(ids, weight)
    assert torch.equal(x, weight[ids])
    dx = torch.randn_like(x)
    near(torch.autograd.grad(x, weight, dx)[0], summed(ids, dx, 40))


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("width", [64, 768, 2048])
def test_it_holds_at_the_sizes_of_real_models(cuda, near, monkeypatch, tokens: str, width: int) -> None:
    monkeypatch.undo()
    ids = TOKENS[tokens](32_768).to(cuda).view(32, 1024)
    weight = torch.randn(50_304, width, device=cuda, dtype=torch.bfloat16, requires_grad=True)
    x = embedding(ids, weight)
    dx = torch.randn_like(x)
    first, second = (torch.autograd.grad(x, weight, dx, retain_graph=True)[0] for _ in range(2))
    near(first, summed(ids, dx, 50_304))
    assert torch.equal(first, second)


def test_gradients_of_any_strides(device, near) -> None:
    ids, weight = torch.randint(0, 9, (5, 7), device=device), torch.randn(10, 12, device=device, requires_grad=True)
    for dx in (
        torch.randn(7, 5, 12, device=device).transpose(0, 1),
        torch.randn(5, 1, 1, device=device).expand(5, 7, 12),
    ):
        near(torch.autograd.grad(embedding(ids, weight), weight, dx)[0], summed(ids, dx.contiguous(), 10))


def test_no_token_at_all(device) -> None:
    weight = torch.randn(10, 12, device=device, requires_grad=True)
    embedding(torch.empty(0, 3, dtype=torch.int64, device=device), weight).sum().backward()
    assert not weight.grad.any()


def test_a_second_derivative_is_refused(device) -> None:
    weight = torch.randn(10, 12, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad(embedding(torch.arange(3, device=device), weight).sum(), weight, create_graph=True)


def test_offsets_beyond_31_bits(cuda) -> None:
    vocab, width = 2**21 + 8, 1024
    weight = torch.empty(vocab, width, device=cuda, dtype=torch.bfloat16, requires_grad=True)
    place = torch.zeros(vocab, width, device=cuda)
    weight.gathering = Gathering(place)
    x = embedding(torch.tensor([vocab - 1, 5, vocab - 1], device=cuda), weight)
    x.backward(torch.ones_like(x))
    assert place[vocab - 1].eq(2).all()
    assert place[5].eq(1).all()
    assert place.sum() == 3 * width
