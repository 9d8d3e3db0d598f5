"""What is minimised: the cross-entropy, and what training may add to it. Evaluation is always the plain loss.

N tokens, V vocabulary.
"""

from typing import Annotated

from pydantic import Field
from torch import Tensor

from labkit.kernels import cross_entropy
from labkit.kernels.cross_entropy import IGNORED as IGNORED
from labkit.spec import Number, Spec


class Loss(Spec):
    """-ln p(target), and in training z · ln²Z for logits that stay small, and smoothed targets."""

    z: Annotated[Number, Field(ge=0)] = 0.0
    """Times ln²Z, Z = Σ exp(logits) (PaLM, arXiv:2204.02311, has 1e-4)."""
    label_smoothing: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    """The share of the target that is spread evenly over the vocabulary (arXiv:1512.00567)."""

    def plain(self, logits_NV: Tensor, targets_N: Tensor, scale: float = 1.0) -> Tensor:
        """-ln p(target), in nats, times the scale; 0 where the target is -100. It may overwrite the logits."""
        return cross_entropy(logits_NV, targets_N, scale=scale, overwrite=True)

    def trained(self, logits_NV: Tensor, targets_N: Tensor, scale: float = 1.0) -> Tensor:
        """What training minimises, times the scale; 0 where the target is -100. It may overwrite the logits."""
        smoothing = self.label_smoothing
        return cross_entropy(logits_NV, targets_N, smoothing=smoothing, z=self.z, scale=scale, overwrite=True)
