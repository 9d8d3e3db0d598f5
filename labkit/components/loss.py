"""What is minimised: the cross-entropy, and what training may add to it. Evaluation is always the plain loss."""

from typing import Annotated

from pydantic import Field

from labkit.kernels.cross_entropy import IGNORED as IGNORED
from labkit.spec import Number, Spec


class Loss(Spec):
    """-ln p(target), and in training z · ln²Z for logits that stay small, and smoothed targets."""

    z: Annotated[Number, Field(ge=0)] = 0.0
    """Times ln²Z, Z = Σ exp(logits) (PaLM, arXiv:2204.02311, has 1e-4)."""
    label_smoothing: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    """The share of the target that is spread evenly over the vocabulary (arXiv:1512.00567)."""

    @property
    def trained(self) -> dict[str, float]:
        """What training minimises, as the options of a cross-entropy; evaluation takes none."""
        return {"smoothing": self.label_smoothing, "z": self.z}
