"""The traps of a loss."""

from typing import Any

import torch

from labkit.bench.checks import Check, Fallen, Tried, leaves_of, near, outputs_of


def near_certainty(tried: Tried) -> None:
    """A target of probability near 1, whose gradient is a small difference."""
    for margin in (8.0, 14.0):
        (logits,) = tried.draw(4, 50)
        logits[:, 7] = logits.amax(1) + margin
        targets = torch.full((4,), 7, device=tried.device)
        (leaf,), (double,) = leaves_of([logits]), leaves_of([logits], exact=True)
        (found,) = torch.autograd.grad(outputs_of(tried.way, [leaf * 1, targets])[0].sum(), leaf)
        (wanted,) = torch.autograd.grad(outputs_of(tried.exact, [double, targets])[0].sum(), double)
        error = ((found[:, 7] - wanted[:, 7]).abs() / wanted[:, 7].abs()).max().item()
        if not error < 1e-4:
            raise Fallen(f"the target's gradient is off by {error:.1e} at a margin of {margin:.0f}")


def ignored(tried: Tried) -> None:
    """Targets of -100: all, some, none; each token's loss by itself, and weighted."""
    for ignoring in (6, 2, 0):
        (logits,) = tried.draw(6, 40)
        targets = torch.arange(6, device=tried.device)
        targets[:ignoring] = -100
        (leaf,), (double,) = leaves_of([logits]), leaves_of([logits], exact=True)
        (losses,), (exact,) = outputs_of(tried.way, [leaf * 1, targets]), outputs_of(tried.exact, [double, targets])
        weights = torch.rand(6, device=tried.device)
        near(f"the loss with {ignoring} ignored", losses, exact)
        (found,) = torch.autograd.grad(losses, leaf, weights)
        (wanted,) = torch.autograd.grad(exact, double, weights.double())
        near(f"the gradient with {ignoring} ignored", found, wanted, 4)


def option(**options: Any) -> Check:
    """What a loss does more."""

    def check(tried: Tried) -> None:
        (logits,) = tried.draw(6, 40)
        targets = torch.tensor([3, -100, 0, 39, 8, 8], device=tried.device)
        (leaf,), (double,) = leaves_of([logits]), leaves_of([logits], exact=True)
        (losses,) = outputs_of(tried.way, [leaf * 1, targets], **options)
        (exact,) = outputs_of(tried.exact, [double, targets], **options)
        near("the loss", losses, exact)
        (found,) = torch.autograd.grad(losses.sum(), leaf)
        near("the gradient", found, torch.autograd.grad(exact.sum(), double)[0], 4)

    return check
