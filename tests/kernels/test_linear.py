"""Products, norms and embeddings whose gradients gather in a place of their own."""

import pytest
import torch
import torch.nn.functional as F

from labkit.kernels import embedding, layer_norm, linear, rms_norm
from labkit.kernels.gradient import Gathering


def placed(*shape, device, dtype=torch.float32):
    """A parameter with its place, in which something stands."""
    leaf = torch.randn(*shape, device=device).to(dtype).requires_grad_()
    leaf.gathering = Gathering(torch.full(shape, 7.0, device=device))
    return leaf


def twice(function, place) -> None:
    """The first gradient overwrites, the second adds."""
    place.is_awaited = True
    for _ in range(2):
        function().sum().backward()
    place.close()


@pytest.mark.parametrize("has_bias", [False, True], ids=["no bias", "bias"])
def test_a_product_writes_its_gradient_where_it_gathers(device, dtype, near, has_bias: bool) -> None:
    x, weight = (
        torch.randn(3, 5, 24, device=device).to(dtype).requires_grad_(),
        placed(40, 24, device=device, dtype=dtype),
    )
    bias = torch.randn(40, device=device, requires_grad=True) if has_bias else None
    exact = [None if t is None else t.detach().double().requires_grad_() for t in (x, weight, bias)]
    wanted = F.linear(*exact)
    near(linear(x, weight, bias), wanted, 2)
    twice(lambda: linear(x, weight, bias), weight.gathering)
    wanted.sum().backward()
    assert weight.grad is None
    near(weight.gathering.into, 2 * exact[1].grad)
    near(x.grad, 2 * exact[0].grad, 2)
    if bias is not None:
        near(bias.grad, 2 * exact[2].grad)


def test_what_a_product_gives_may_be_written_over(device) -> None:
    x, weight = torch.randn(3, 5, 8, device=device), placed(16, 8, device=device)
    for bias in (None, torch.zeros(16, device=device)):
        assert not linear(x, weight, bias)._is_view()


@pytest.mark.parametrize("norm", [rms_norm, layer_norm])
def test_a_norm_writes_its_vectors_gradients_where_they_gather(device, near, norm) -> None:
    x, gain, bias = torch.randn(9, 24, device=device), placed(24, device=device), placed(24, device=device)
    vectors = (gain,) if norm is rms_norm else (gain, bias)
    apart = [vector.detach().clone().requires_grad_() for vector in vectors]
    (norm(x, *apart, eps=1e-5) * 2).sum().backward()
    for vector in vectors:
        vector.gathering.is_awaited = True
    for _ in range(2):
        norm(x, *vectors, eps=1e-5).sum().backward()
    for vector, leaf in zip(vectors, apart, strict=True):
        assert vector.grad is None
        near(vector.gathering.into, leaf.grad.double())


def test_an_embedding_adds_to_what_a_tied_head_wrote(device, near) -> None:
    ids, weight = torch.randint(0, 9, (5, 7), device=device), placed(10, 12, device=device, dtype=torch.bfloat16)
    before = weight.gathering.into.clone()
    x = embedding(ids, weight)
    x.backward(dx := torch.randn_like(x))
    sums = torch.zeros(10, 12, device=device, dtype=torch.float64).index_add_(
        0, ids.flatten(), dx.flatten(0, 1).double()
    )
    assert weight.grad is None
    near(weight.gathering.into, before + sums)
    assert torch.equal(weight.gathering.into[9], before[9])
    weight.gathering.is_awaited = True
    embedding(ids, weight).backward(dx)
    near(weight.gathering.into, sums)


def test_what_nobody_asks_for_is_not_gathered(device) -> None:
    x, weight = torch.randn(3, 8, device=device), placed(16, 8, device=device)
    with torch.no_grad():
        assert torch.equal(linear(x, weight), F.linear(x, weight))
    assert weight.gathering.into.eq(7.0).all()


def test_a_second_derivative_is_refused(device) -> None:
    x, weight = torch.randn(3, 8, device=device, requires_grad=True), placed(16, 8, device=device)
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad(linear(x, weight).sum(), x, create_graph=True)
