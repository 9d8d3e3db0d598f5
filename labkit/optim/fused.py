"""AdamW in one launch for many weights: torch's fused kernel."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.optim.adamw import adamw

from labkit.optim.stepper import Stepper


class FusedAdamw(Stepper):
    """Groups have `lr`, `betas`, `eps` and `weight_decay`. Nothing in a step waits for the device."""

    def __init__(self, groups: Iterable[dict[str, Any]], defaults: Mapping[str, Any]) -> None:
        super().__init__(groups, defaults)
        for group in self.param_groups:
            for value in group["params"]:
                moments = {"exp_avg": torch.zeros_like(value), "exp_avg_sq": torch.zeros_like(value)}
                self.state[value] = {"step": torch.zeros((), device=value.device), **moments}

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            states = [self.state[value] for value in group["params"]]
            adamw(
                group["params"],
                [value.grad for value in group["params"]],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [state["step"] for state in states],
                fused=True,
                grad_scale=self.grad_scale,
                found_inf=self.found_inf,
                amsgrad=False,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )
