"""Head and loss in chunks: against torch's own in float64."""

import sys
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from labkit import kernels
from labkit.kernels.gradient import Gathering

OPTIONS = [{}, {"smoothing": 0.1, "z": 1e-2, "softcap": 3.0}]

pytestmark = pytest.mark.filterwarnings(
    "ignore:overflow encountered in exp:RuntimeWarning"
)  # of the interpreter's numpy


MODULE = sys.modules["labkit.kernels.linear_cross_entropy"]
linear_cross_entropy = partial(kernels.linear_cross_entropy, chunked=True)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch) -> None:
    """Seven rows make four of them."""
    monkeypatch.setattr(MODULE, "LEAST", 2)


def inputs(device, dtype, shape=(7, 24, 50)):
    count, width, vocab = shape
    hidden = torch.randn(count, width, device=device).to(dtype)
    weight = (2 * torch.randn(vocab, width, device=device) / width**0.5).to(dtype)
    targets = torch.randint(0, vocab, (count,), device=device)
    targets[1] = -100
    return hidden, weight, targets


def exact(hidden, weight, targets, bias=None, *, smoothing=0.0, z=0.0, softcap=None):
    logits = F.linear(hidden, weight, bias)
    capped = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    losses = F.cross_entropy(capped, targets, reduction="none", label_smoothing=smoothing)
    return losses + z * torch.logsumexp(capped, 1).square() * (targets != -100)


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "all"])
@pytest.mark.parametrize("has_bias", [False, True], ids=["no bias", "bias"])
def test_losses_and_gradients_are_those_of_float64(device, dtype, near, options, has_bias: bool) -> None:
    hidden, weight, targets = inputs(device, dtype)
    tensors = [hidden, weight, *([torch.randn(50, device=device).to(dtype)] if has_bias else [])]
    fast = [tensor.detach().requires_grad_() for tensor in tensors]
    slow = [tensor.detach().double().requires_grad_() for tensor in tensors]
    losses = linear_cross_entropy(*fast[:2], targets, bias=fast[2] if has_bias else None, scale=1 / 6, **options)
    wanted = exact(*slow[:2], targets, *slow[2:], **options) / 6
    assert losses.dtype == torch.float32
    near(losses.to(dtype), wanted, 3)  # as good as logits in that precision can be
    for found, gradient in zip(
        torch.autograd.grad(2 * losses.sum(), fast), torch.autograd.grad(2 * wanted.sum(), slow), strict=True
    ):
        near(found, gradient, 3)


@pytest.mark.parametrize("vocab", [32_000, 50_257])
def test_it_holds_at_the_sizes_of_real_models(cuda, near, monkeypatch, vocab: int) -> None:
    monkeypatch.undo()
    hidden, weight, targets = inputs(cuda, torch.bfloat16, (4500, 256, vocab))
    fast, slow = (
        [t.detach().to(kind).requires_grad_() for t in (hidden, weight)] for kind in (hidden.dtype, torch.float64)
    )
    losses = linear_cross_entropy(*fast, targets)
    wanted = exact(*slow, targets)
    near(losses.bfloat16(), wanted)
    gradients = torch.autograd.grad(losses.sum(), fast), torch.autograd.grad(wanted.sum(), slow)
    for found, gradient in zip(*gradients, strict=True):
        near(found, gradient, 2)


def test_the_weight_s_gradient_goes_into_its_place(device, near) -> None:
    hidden, weight, targets = inputs(device, torch.bfloat16)
    slow = [tensor.double().requires_grad_() for tensor in (hidden, weight)]
    (gradient,) = torch.autograd.grad(exact(*slow, targets).sum(), slow[1])
    leaf = with_place(weight, 7.0)
    leaf.gathering.is_awaited = True
    for _ in range(2):
        linear_cross_entropy(hidden.requires_grad_(), leaf, targets).sum().backward()
    assert leaf.grad is None
    near(leaf.gathering.into.bfloat16(), 2 * gradient, 2)


def with_place(weight, value=0.0):
    leaf = weight.clone().requires_grad_()
    leaf.gathering = Gathering(torch.full(weight.shape, value, device=weight.device))
    return leaf


def test_the_weight_s_gradient_is_summed_in_fp32_over_the_chunks(device) -> None:
    count = 160
    hidden, weight = torch.ones(count, 8, device=device).bfloat16(), torch.zeros(2, 8, device=device).bfloat16()
    targets, leaf = torch.zeros(count, dtype=torch.int64, device=device), with_place(weight)
    linear_cross_entropy(hidden, leaf, targets, scale=1 + 2**-7)
    assert torch.equal(leaf.gathering.into[1], torch.full((8,), count * 0.5 * (1 + 2**-7), device=device))


def test_a_place_knows_no_other_factor(device) -> None:
    hidden, weight, targets = inputs(device, torch.float32)
    leaf = with_place(weight)
    (linear_cross_entropy(hidden.requires_grad_(), leaf, targets).sum() / 2).backward()
    assert leaf.gathering.into.isnan().all()


def test_a_gradient_for_each_token_is_refused(device) -> None:
    hidden, weight, targets = inputs(device, torch.float32)
    losses = linear_cross_entropy(hidden.requires_grad_(), weight, targets)
    with pytest.raises(RuntimeError, match="sum of its losses"):
        losses.mean().backward()


def test_without_gradients_there_are_only_losses(device, near) -> None:
    hidden, weight, targets = inputs(device, torch.float32)
    leaf = with_place(weight)
    with torch.no_grad():
        losses = linear_cross_entropy(hidden.view(7, 1, -1), leaf, targets.view(7, 1))
    near(losses.flatten(), exact(hidden.double(), weight.double(), targets), 3)
    assert losses.shape == (7, 1)
    assert not leaf.gathering.into.any()


def test_no_token_and_no_token_that_counts(device) -> None:
    hidden, weight, targets = inputs(device, torch.float32)
    assert linear_cross_entropy(hidden[:0].requires_grad_(), weight, targets[:0]).shape == (0,)
    leaf = hidden.clone().requires_grad_()
    losses = linear_cross_entropy(leaf, weight, torch.full_like(targets, -100))
    losses.sum().backward()
    assert not losses.any()
    assert not leaf.grad.any()


def test_the_same_call_gives_the_same_bits(device) -> None:
    hidden, weight, targets = inputs(device, torch.bfloat16)
    leaves = [hidden.requires_grad_(), weight.requires_grad_()]
    runs = [torch.autograd.grad(linear_cross_entropy(*leaves, targets).sum(), leaves) for _ in range(2)]
    assert all(map(torch.equal, *runs))


def test_a_second_pass_is_refused(device) -> None:
    hidden, weight, targets = inputs(device, torch.float32)
    total = linear_cross_entropy(hidden.requires_grad_(), weight, targets).sum()
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="once"):
        total.backward()


def test_what_fits_into_memory_is_not_cut(device, near) -> None:
    hidden, weight, targets = inputs(device, torch.float32)
    losses = kernels.linear_cross_entropy(hidden.requires_grad_(), weight, targets, z=0.1)
    wanted = exact(slow := hidden.detach().double().requires_grad_(), weight.double(), targets, z=0.1)
    near(losses, wanted, 3)
    near(torch.autograd.grad(losses.mean(), hidden)[0], torch.autograd.grad(wanted.mean(), slow)[0], 3)


def test_no_more_than_a_quarter_of_the_logits_stands_in_memory(cuda, monkeypatch) -> None:
    monkeypatch.undo()
    hidden, weight, targets = inputs(cuda, torch.bfloat16, (16_384, 768, 50_304))
    leaf = with_place(weight)
    linear_cross_entropy(hidden[:64].requires_grad_(), leaf, targets[:64]).sum().backward()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    (gradient,) = torch.autograd.grad(linear_cross_entropy(hidden.requires_grad_(), leaf, targets).sum(), hidden)
    taken = torch.cuda.max_memory_allocated() - before
    assert gradient.shape == hidden.shape
    assert taken <= 0.25 * 2 * 16_384 * 50_304
