"""What is minimised: the cross-entropy, and what training may add to it. Evaluation is always the plain loss.

N tokens, V vocabulary.
"""

from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from labkit.spec import Number, Spec

IGNORED = -100
"""A target that is not scored."""


class Loss(Spec):
    """-ln p(target), and in training z · ln²Z for logits that stay small, and smoothed targets."""

    z: Annotated[Number, Field(ge=0)] = 0.0
    """Times ln²Z, Z = Σ exp(logits) (PaLM, arXiv:2204.02311, has 1e-4)."""
    label_smoothing: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    """The share of the target that is spread evenly over the vocabulary (arXiv:1512.00567)."""

    def plain(self, logits_NV: Tensor, targets_N: Tensor) -> Tensor:
        """-ln p(target), in nats; 0 where the target is -100."""
        return F.cross_entropy(logits_NV, targets_N, reduction="none", ignore_index=IGNORED)

    def trained(self, logits_NV: Tensor, targets_N: Tensor) -> Tensor:
        """What training minimises; 0 where the target is -100."""
        smoothing = self.label_smoothing
        losses_N = F.cross_entropy(
            logits_NV, targets_N, reduction="none", ignore_index=IGNORED, label_smoothing=smoothing
        )
        if self.z == 0.0:
            return losses_N
        extra_N = self.z * torch.logsumexp(logits_NV, dim=-1).square()
        return losses_N + extra_N * (targets_N != IGNORED)
