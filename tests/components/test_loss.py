"""The loss against its formulas in float64."""

import pytest
import torch

from labkit.components.loss import Loss
from labkit.kernels import cross_entropy

LOGITS = torch.randn(7, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3
TARGETS = torch.tensor([0, 3, 10, -100, 5, 5, 1])
SCORED = TARGETS != -100


def log_odds() -> torch.Tensor:
    return LOGITS - LOGITS.exp().sum(-1, keepdim=True).log()


def test_the_plain_loss_is_minus_the_log_odds_of_the_target() -> None:
    expected = -log_odds()[range(7), TARGETS.clamp(min=0)] * SCORED
    torch.testing.assert_close(cross_entropy(LOGITS, TARGETS, **Loss().trained), expected)


@pytest.mark.parametrize(("z", "smoothing"), [(0.1, 0.0), (0.0, 0.2), (0.1, 0.2)])
def test_training_smooths_the_targets_and_adds_the_squared_log_of_z(z: float, smoothing: float) -> None:
    targets = torch.full((7, 11), smoothing / 11, dtype=torch.float64)
    targets[range(7), TARGETS.clamp(min=0)] += 1 - smoothing
    expected = -(targets * log_odds()).sum(-1) + z * LOGITS.exp().sum(-1).log() ** 2
    found = cross_entropy(LOGITS, TARGETS, **Loss(z=z, label_smoothing=smoothing).trained)
    torch.testing.assert_close(found, expected * SCORED)
