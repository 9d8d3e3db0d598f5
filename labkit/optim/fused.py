"""AdamW in one launch for all weights: labkit's kernel, or torch's fused one where that does not run."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from labkit import kernels
from labkit.kernels import Slot, Table
from labkit.optim.stepper import Stepper

Groups = Sequence[dict[str, Any]]
_add_to_each: Any = vars(torch)["_foreach_add_"]  # what torch's own optimizers count with


class FusedAdamw(Stepper):
    """Groups have `lr`, `betas`, `eps` and `weight_decay`. Nothing in a step waits for the device."""

    def __init__(self, groups: Iterable[dict[str, Any]], defaults: Mapping[str, Any]) -> None:
        super().__init__(groups, defaults)
        for group in self.param_groups:
            for value in group["params"]:
                moments = {"exp_avg": torch.zeros_like(value), "exp_avg_sq": torch.zeros_like(value)}
                self.state[value] = {"step": torch.zeros((), device=value.device), **moments}
        alike = itertools.groupby(sorted(self.param_groups, key=itemgetter("eps")), key=itemgetter("eps"))
        together = [Together(list(members), self.state) for _, members in alike]
        self.tables = together if all(each.table.rows is not None for each in together) else []
        self.publishes = bool(self.tables)

    @torch.no_grad()
    def step(self) -> None:
        if not self.tables:
            for group in self.param_groups:
                self._step(group)
            return
        counts = [state["step"] for state in self.state.values()]
        _add_to_each(counts, [1.0 - self.found_inf] * len(counts))
        for each in self.tables:
            each.step(counts[0], self.grad_scale, self.found_inf)

    def _step(self, group: dict[str, Any]) -> None:
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


class Together:
    """Groups that one launch steps: they differ in rate and decay only."""

    def __init__(self, groups: Groups, state: Mapping[Tensor, Mapping[str, Tensor]]) -> None:
        self.groups = groups
        self.table = Table([slot for index, group in enumerate(groups) for slot in _slots(group, index, state)])
        device = groups[0]["params"][0].device
        self.decays = torch.tensor([group["weight_decay"] for group in groups], device=device)

    def step(self, count: Tensor, divisor: Tensor, frozen: Tensor) -> None:
        rates = torch.stack([torch.as_tensor(group["lr"], device=count.device) for group in self.groups])
        kernels.adamw(
            self.table,
            rates=rates.float().unsqueeze(0),
            decays=self.decays,
            step=count,
            betas=self.groups[0]["betas"],
            eps=self.groups[0]["eps"],
            norm=divisor,
            clip=1.0,
            frozen=frozen,
        )


def _slots(group: Mapping[str, Any], index: int, state: Mapping[Tensor, Mapping[str, Tensor]]) -> Iterable[Slot]:
    for weight in group["weights"]:
        moments = state[weight.value]
        yield Slot(weight.value, weight.value.grad, moments["exp_avg"], moments["exp_avg_sq"], weight.copy, index)
