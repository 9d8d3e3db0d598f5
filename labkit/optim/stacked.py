"""Muon on stacks of matrices of one shape: its products are made for all of them together, what is around them too."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from labkit.kernels.muon import Matrices, Matrix, ahead, fits, move
from labkit.optim.guarded import Rule
from labkit.optim.orthogonal import orthogonalized
from labkit.optim.stepper import Stepper
from labkit.optim.weights import Weight, groups


class Orthogonal(Rule, Protocol):
    """The rule of Muon."""

    @property
    def momentum(self) -> float: ...
    @property
    def nesterov(self) -> bool: ...
    @property
    def coefficients(self) -> tuple[float, float, float]: ...
    @property
    def iterations(self) -> int: ...

    def factor(self, rows: float, columns: float) -> float:
        """By what the update of a matrix is multiplied."""
        ...


class Stacked(Stepper):
    """Steps weights as `Guarded` does by the same rule, in two launches and the products between them."""

    publishes = True

    def __init__(self, rule: Orthogonal, weights: Iterable[Weight], weight_decay: float) -> None:
        super().__init__(groups(weights, rule, weight_decay), {})
        self.rule = rule
        members = [(index, weight) for index, group in enumerate(self.param_groups) for weight in group["weights"]]
        for _, weight in members:
            self.state[weight.value] = dict(rule.start(weight))
        device = members[0][1].value.device
        self.stacks = [Stack(shape, compute, members) for shape, compute in dict.fromkeys(map(_kind, members))]
        self.table = Matrices([matrix for shape, stack in enumerate(self.stacks) for matrix in stack.rows(self, shape)])
        self.decays = torch.tensor([group["weight_decay"] for group in self.param_groups], device=device)
        self.factors = torch.tensor([rule.factor(*stack.shape) for stack in self.stacks], device=device)

    @torch.no_grad()
    def step(self) -> None:
        rule, frozen = self.rule, self.found_inf
        ahead(self.table, divisor=self.grad_scale, frozen=frozen, momentum=rule.momentum, nesterov=rule.nesterov)
        for stack in self.stacks:
            x = stack.values
            x.copy_(orthogonalized(x, rule.coefficients, rule.iterations, stack.compute))
        rates = torch.stack([torch.as_tensor(group["lr"], device=frozen.device) for group in self.param_groups])
        move(self.table, rates=rates.float(), decays=self.decays, factors=self.factors, frozen=frozen)


Member = tuple[int, Weight]
"""The group of a weight, and the weight."""


def _kind(member: Member) -> tuple[torch.Size, torch.dtype]:
    return member[1].value.shape[-2:], member[1].compute


class Stack:
    """The matrices of one shape whose products are made in one precision; what comes before and after these."""

    def __init__(self, shape: torch.Size, compute: torch.dtype, members: Sequence[Member]) -> None:
        self.shape, self.compute = shape, compute
        self.members = [member for member in members if _kind(member) == (shape, compute)]
        sizes = [weight.value.shape[:-2].numel() for _, weight in self.members]
        like = self.members[0][1].value
        self.values = torch.zeros(sum(sizes), *shape, dtype=like.dtype, device=like.device)
        self.places = self.values.split(sizes)

    def rows(self, stepper: Stepper, shape: int) -> Iterable[Matrix]:
        """Of the table; `shape` is the number of this stack."""
        for (group, weight), place in zip(self.members, self.places, strict=True):
            value: Any = weight.value
            yield Matrix(value, value.grad, stepper.state[value]["momentum"], place, weight.copy, group, shape)


def stackable(weights: Sequence[Weight]) -> bool:
    """Whether the kernels take these weights."""
    alike = len({weight.copy.dtype for weight in weights if weight.copy is not None}) <= 1
    return bool(weights) and alike and all(map(_fits, weights))


def _fits(weight: Weight) -> bool:
    gradient: Tensor | None = weight.value.grad
    return gradient is not None and fits((weight.value, gradient, weight.value, weight.copy))
