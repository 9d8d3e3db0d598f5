"""Steps by a rule, guarded: a step that is not finite changes nothing, and nobody waits to learn whether it was.

w ← w - lr (λ w + direction(g / grad_scale))        unless found_inf, which stays on the device; λ on matrices only
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from labkit.optim.stepper import Stepper
from labkit.optim.weights import Rates, Weight, groups

State = Mapping[str, Tensor]


class Rule(Rates, Protocol):
    """How one weight moves. Everything is a tensor on its device: a rule never asks for a value."""

    def start(self, weight: Weight) -> State:
        """What is remembered of a weight, before the first step."""
        ...

    def direction(self, gradient: Tensor, weight: Weight, state: State) -> tuple[Tensor, State]:
        """Where to go for a gradient, and what to remember: new tensors; none that came in is written to."""
        ...


class Guarded(Stepper):
    """Steps weights by a rule."""

    def __init__(self, rule: Rule, weights: Iterable[Weight], weight_decay: float) -> None:
        super().__init__(groups(weights, rule, weight_decay), {})
        self.rule = rule
        for group in self.param_groups:
            for weight in group["weights"]:
                self.state[weight.value] = dict(rule.start(weight))

    @torch.no_grad()
    def step(self) -> None:
        frozen = self.found_inf.bool()
        for group in self.param_groups:
            for weight in group["weights"]:
                self._move(weight, group["lr"], group["weight_decay"], frozen)

    def _move(self, weight: Weight, lr: float | Tensor, weight_decay: float, frozen: Tensor) -> None:
        assert weight.value.grad is not None
        state = self.state[weight.value]
        direction, remembered = self.rule.direction(weight.value.grad / self.grad_scale, weight, state)
        moved = weight.value - lr * (weight_decay * weight.value + direction)
        for old, new in ((weight.value, moved), *((state[key], remembered[key]) for key in state)):
            torch.where(frozen, old, new, out=old)


class Together(Stepper):
    """Steppers of different weights as one: their groups, each with its own rate, and one state."""

    def __init__(self, *steppers: Stepper) -> None:
        first = steppers[0]
        self.grad_scale, self.found_inf = first.grad_scale, first.found_inf
        self.steppers = steppers
        self.publishes = all(stepper.publishes for stepper in steppers)
        self.param_groups = [group for stepper in steppers for group in stepper.param_groups]
        self.state = {value: state for stepper in steppers for value, state in stepper.state.items()}

    def step(self) -> None:
        for stepper in self.steppers:
            stepper.grad_scale, stepper.found_inf = self.grad_scale, self.found_inf
            stepper.step()
