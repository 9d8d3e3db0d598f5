"""What steps weights: groups of them, each with its own rate, and what is remembered of each weight."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor


class Stepper:
    """The part of torch.optim.Optimizer that training needs, without the compiler that making one of those imports.

    `param_groups` and `state` are as there; `grad_scale` and `found_inf` are the device scalars of a step, as torch's
    fused optimizers take them.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], defaults: Mapping[str, Any]) -> None:
        """Groups name their weights, ``{"params": [(name, weight)], ...}``; `defaults` are what one does not say."""
        self.param_groups = [{**defaults, **group, **_apart(group["params"])} for group in groups]
        self.state: dict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        device = self.param_groups[0]["params"][0].device
        self.grad_scale, self.found_inf = torch.ones((), device=device), torch.zeros((), device=device)

    publishes = False
    """Whether a step also rounds the weights into the copies that the model computes with."""

    def step(self) -> None:
        """Divide the gradients by `grad_scale` and move the weights; change nothing while `found_inf` is 1."""
        raise NotImplementedError


def _apart(named: Iterable[tuple[str, Tensor]]) -> dict[str, Any]:
    names, values = zip(*named, strict=True)
    return {"params": list(values), "param_names": list(names)}
