"""Cross-entropy by itself: against torch's own in float64."""

import pytest
import torch
import torch.nn.functional as F

from labkit.kernels.cross_entropy import cross_entropy
from labkit.kernels.launch import using

OPTIONS = [{}, {"smoothing": 0.1}, {"z": 1e-2}, {"softcap": 3.0}, {"smoothing": 0.2, "z": 1e-2, "softcap": 5.0}]

pytestmark = pytest.mark.filterwarnings(
    "ignore:overflow encountered in exp:RuntimeWarning"
)  # of the interpreter's numpy


def exact(logits, targets, smoothing=0.0, z=0.0, softcap=None):
    """Written with torch's own loss."""
    logits = logits.double()
    capped = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    losses = F.cross_entropy(capped, targets, reduction="none", label_smoothing=smoothing)
    return losses + z * torch.logsumexp(capped, 1).square() * (targets != -100)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(options) or "plain")
@pytest.mark.parametrize("size", [(5, 37), (3, 640)])
def test_losses_and_gradients_are_those_of_float64(device, dtype, near, options, size) -> None:
    count, vocab = size
    logits = (4 * torch.randn(count, vocab, device=device)).to(dtype).requires_grad_()
    targets = torch.randint(0, vocab, (count,), device=device)
    targets[1] = -100
    weights = torch.rand(count, device=device)
    losses, wanted = cross_entropy(logits, targets, **options), exact(logits, targets, **options)
    assert losses.dtype == torch.float32
    near(losses, wanted, 2)
    found, gradient = (torch.autograd.grad((each * weights).sum(), logits)[0] for each in (losses, wanted))
    exact_leaf = logits.detach().double().requires_grad_()
    (gradient,) = torch.autograd.grad((exact(exact_leaf, targets, **options) * weights).sum(), exact_leaf)
    near(found, gradient, 3)
    assert losses[1] == 0
    assert not found[1].any()


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(options) or "plain")
@pytest.mark.parametrize("vocab", [8192, 32_000, 50_257, 50_304])
def test_it_holds_at_the_sizes_of_real_models(cuda, dtype, near, options, vocab: int) -> None:
    test_losses_and_gradients_are_those_of_float64(cuda, dtype, near, options, (200, vocab))


@pytest.mark.parametrize("margin", [8.0, 14.0, 20.0])
def test_a_target_of_probability_near_one_keeps_its_digits(device, margin: float) -> None:
    logits = torch.randn(4, 50, device=device)
    logits[:, 7] = logits.amax(1) + margin
    leaf, double = logits.requires_grad_(), logits.detach().double().requires_grad_()
    targets = torch.full((4,), 7, device=device)
    losses, wanted = cross_entropy(leaf, targets), exact(double, targets)
    (found,), (gradient,) = torch.autograd.grad(losses.sum(), leaf), torch.autograd.grad(wanted.sum(), double)
    torch.testing.assert_close(losses.double(), wanted, rtol=1e-5, atol=1e-30)
    torch.testing.assert_close(found[:, 7].double(), gradient[:, 7], rtol=1e-5, atol=1e-30)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("target", [-60.0, -100.0, -1000.0])
def test_a_target_far_below_the_others_is_no_overflow(device, near, target: float) -> None:
    logits = torch.randn(3, 50, device=device)
    logits[:, 7], logits[0, 9] = target, -torch.inf
    leaf, double = logits.requires_grad_(), logits.detach().double().requires_grad_()
    losses, wanted = (
        cross_entropy(leaf, torch.full((3,), 7, device=device), z=1e-3),
        exact(double, torch.full((3,), 7, device=device), z=1e-3),
    )
    near(losses, wanted)
    near(torch.autograd.grad(losses.sum(), leaf)[0], torch.autograd.grad(wanted.sum(), double)[0], 2)


@pytest.mark.parametrize("ignored", ["all", "some", "none"])
def test_the_mean_is_over_the_tokens_that_count(device, near, ignored: str) -> None:
    logits = torch.randn(6, 40, device=device, requires_grad=True)
    targets = torch.randint(0, 40, (6,), device=device)
    targets[: {"all": 6, "some": 2, "none": 0}[ignored]] = -100
    counted = int((targets != -100).sum())
    losses = cross_entropy(logits, targets, scale=1 / max(counted, 1))
    (found,) = torch.autograd.grad(losses.sum(), logits)
    double = logits.detach().double().requires_grad_()
    wanted = F.cross_entropy(double, targets) if counted else 0.0 * double.sum()
    near(losses.sum(), wanted, 2)
    near(found, torch.autograd.grad(wanted, double)[0], 2)


def test_the_gradient_takes_the_place_of_the_logits(device) -> None:
    leaf, targets = torch.randn(4, 40, device=device, requires_grad=True), torch.tensor([3, 0, -100, 39], device=device)
    logits = leaf * 1.0
    losses = cross_entropy(logits, targets, overwrite=True, scale=0.25)
    losses.sum().backward()
    assert torch.equal(logits, leaf.grad)
    aside = leaf.detach().requires_grad_()
    cross_entropy(aside, targets, scale=0.25).sum().backward()
    assert torch.equal(aside.grad, leaf.grad)


def test_what_is_computed_from_overwritten_logits_is_refused(device) -> None:
    leaf, targets = torch.randn(4, 40, device=device, requires_grad=True), torch.arange(4, device=device)
    logits = leaf * 1.0
    losses = cross_entropy(logits, targets, overwrite=True)
    again = cross_entropy(logits, targets)
    with pytest.raises(RuntimeError, match="overwrite=False"):
        (losses.sum() + again.sum()).backward()
    squared = leaf * 1.0
    kept = squared.square()
    cross_entropy(squared, targets, overwrite=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()


def test_a_leaf_or_a_view_is_never_overwritten(device) -> None:
    leaf, targets = torch.randn(2, 2, 40, device=device, requires_grad=True), torch.arange(4, device=device)
    before = leaf.detach().clone()
    view = (leaf * 1.0).flatten(0, 1)
    for logits in (leaf.flatten(0, 1), view):
        assert cross_entropy(logits, targets, overwrite=True).sum().isfinite()
    cross_entropy(leaf, targets.view(2, 2), overwrite=True).sum().backward()
    assert torch.equal(leaf, before)
    assert torch.equal(view.view_as(before), before)


def test_logits_of_any_strides(device, near) -> None:
    wide, targets = torch.randn(40, 3, 90, device=device), torch.randint(0, 40, (3, 4), device=device)
    for logits in (wide[:4, :, 5:45].transpose(0, 1), wide.permute(1, 2, 0)[:, :4], wide[:3, :1, :40].expand(3, 4, 40)):
        leaf, double = logits.detach().requires_grad_(), logits.double().requires_grad_()
        found, wanted = cross_entropy(leaf, targets), exact(double.flatten(0, 1), targets.flatten()).view(3, 4)
        near(found, wanted)
        near(torch.autograd.grad(found.sum(), leaf)[0], torch.autograd.grad(wanted.sum(), double)[0])


def test_without_gradients_the_logits_stay_as_they_are(device) -> None:
    logits, targets = torch.randn(4, 40, device=device), torch.arange(4, device=device)
    before = logits.clone()
    losses = cross_entropy(logits, targets, overwrite=True)
    assert torch.equal(logits, before)
    assert not losses.requires_grad
    assert torch.equal(losses, cross_entropy(logits.requires_grad_(), targets))


def test_a_target_outside_the_vocabulary_is_not_a_number(device) -> None:
    assert cross_entropy(torch.randn(1, 8, device=device), torch.tensor([8], device=device)).isnan().all()


def test_the_same_call_gives_the_same_bits(device) -> None:
    logits = torch.randn(9, 300, device=device, requires_grad=True)
    targets = torch.randint(0, 300, (9,), device=device)
    runs = [torch.autograd.grad(cross_entropy(logits, targets, z=1e-3).sum(), logits)[0] for _ in range(2)]
    assert torch.equal(*runs)


def test_a_second_pass_and_a_second_derivative_are_refused(device) -> None:
    logits, targets = torch.randn(4, 8, device=device, requires_grad=True), torch.arange(4, device=device)
    losses = cross_entropy(logits, targets).sum()
    losses.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="go backward through it once"):
        losses.backward()
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad(cross_entropy(logits, targets).sum(), logits, create_graph=True)


def test_offsets_beyond_31_bits(cuda, near) -> None:
    vocab = 50_304
    logits = torch.empty(2**31 // vocab + 40, vocab, device=cuda, dtype=torch.bfloat16).normal_()
    targets = torch.randint(0, vocab, (len(logits),), device=cuda)
    with using("torch"):
        tail = logits[-32:].detach().double().requires_grad_()
        wanted = exact(tail, targets[-32:])
    leaf = logits.requires_grad_()
    losses = cross_entropy(leaf, targets)
    (found,) = torch.autograd.grad(losses.sum(), leaf)
    near(losses[-32:], wanted)
    near(found[-32:], torch.autograd.grad(wanted.sum(), tail)[0], 2)
