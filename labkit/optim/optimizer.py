"""What turns a gradient into an update."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from labkit.spec import Choice, Number


class Optimizer(Choice):
    """How a gradient moves the weights; the schedule scales its learning rate."""

    lr: Annotated[Number, Field(gt=0)] = 1e-3
    """The peak learning rate."""

    def build(self, decayed: Sequence[Tensor], kept: Sequence[Tensor]) -> torch.optim.Optimizer:
        """For the weights to decay (matrices) and those to keep (gains, biases).

        It takes the device scalars of a step as torch's fused optimizers do: gradients are divided by `grad_scale`,
        and while `found_inf` is 1 a step changes nothing.
        """
        raise NotImplementedError


Beta = Annotated[Number, Field(ge=0, lt=1)]


class Adamw(Optimizer):
    """w ← w - lr (λ w + m̂ / (√v̂ + eps)), m and v running means of g and g², λ on matrices only (arXiv:1711.05101)."""

    kind: Literal["adamw"] = "adamw"
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    eps: Annotated[Number, Field(gt=0)] = 1e-8
    weight_decay: Annotated[Number, Field(ge=0)] = 0.1

    def build(self, decayed: Sequence[Tensor], kept: Sequence[Tensor]) -> torch.optim.Optimizer:
        groups: list[dict[str, Any]] = [
            {"params": list(decayed), "weight_decay": self.weight_decay},
            {"params": list(kept), "weight_decay": 0.0},
        ]
        filled = [group for group in groups if group["params"]]
        return torch.optim.AdamW(filled, lr=self.lr, betas=self.betas, eps=self.eps, fused=True)
