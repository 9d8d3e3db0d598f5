"""What turns a gradient into an update: g the gradient after clipping, w the weight, λ the decay of matrices.

A variant is a rule of `labkit.optim.guarded`: what it remembers of a weight, and where that says to go.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from labkit.components.parameters import Part, Role
from labkit.optim.factored import inverse_roots, rms, row_and_column_means
from labkit.optim.fused import FusedAdamw
from labkit.optim.guarded import Guarded, State, Together
from labkit.optim.orthogonal import orthogonalized
from labkit.optim.stacked import Stacked, stackable
from labkit.optim.stepper import Stepper
from labkit.optim.weights import Weight, groups
from labkit.spec import Choice, Count, Mistake, Number

Rate = Annotated[Number, Field(gt=0)]
Beta = Annotated[Number, Field(ge=0, lt=1)]
Decay = Annotated[Number, Field(ge=0)]


class Optimizer(Choice):
    """How a gradient moves the weights; the schedule scales its learning rate."""

    lr: Rate = 1e-3
    """The peak learning rate."""

    def build(self, weights: Iterable[Weight]) -> Stepper:
        """For the weights of a model, in named groups that each start at their own peak rate.

        It takes the device scalars of a step as torch's fused optimizers do: gradients are divided by `grad_scale`,
        and while `found_inf` is 1 a step changes nothing.
        """
        raise NotImplementedError

    def rate(self, part: Part) -> float:
        """By what the learning rate is multiplied, so that a step changes what a part computes as at base width.

        Where |Δ| is the spectral norm of a step at learning rate 1, that is divisor · √(fan_out / fan_in) / |Δ|, each
        in multiples of what it is at base width. muP refuses an optimizer without a rule.
        """
        raise Mistake(f"optimizer: {self.label} does not say how its learning rate follows the width; give it a rate")

    @property
    def has_rates(self) -> bool:
        """Whether it has a rule for parts that have grown."""
        return type(self).rate is not Optimizer.rate


def entrywise(part: Part) -> float:
    """The rate where each entry moves by about as much, and together, at every width: |Δ| ∝ √(fan_in · fan_out)."""
    return part.growth.divisor / part.growth.fan_in


class Adamw(Optimizer):
    """w ← w - lr (λ w + m̂ / (√v̂ + eps)), m and v running means of g and g², λ on matrices only (arXiv:1711.05101)."""

    kind: Literal["adamw"] = "adamw"
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    eps: Annotated[Number, Field(gt=0)] = 1e-8
    weight_decay: Decay = 0.1

    def build(self, weights: Iterable[Weight]) -> Stepper:
        by_rate = groups(weights, self, self.weight_decay)
        for group in by_rate:
            group["eps"] = self.eps * group["gradient"]
        return FusedAdamw(by_rate, {"betas": self.betas})

    def rate(self, part: Part) -> float:
        return entrywise(part)


class Sgd(Optimizer):
    """w ← w - lr (λ w + m), m ← μ m + g (Polyak 1964); with Nesterov g + μ m for m (Sutskever et al. 2013)."""

    kind: Literal["sgd"] = "sgd"
    momentum: Beta = 0.9
    nesterov: bool = False
    weight_decay: Decay = 0.0

    def idle(self) -> Mapping[str, str]:
        return {} if self.momentum else {"nesterov": "where momentum is 0; leave it out"}

    def build(self, weights: Iterable[Weight]) -> Stepper:
        return Guarded(self, weights, self.weight_decay)

    def start(self, weight: Weight) -> State:
        return {"momentum": torch.zeros_like(weight.value)}

    def direction(self, gradient: Tensor, weight: Weight, state: State) -> tuple[Tensor, State]:
        momentum = self.momentum * state["momentum"] + gradient
        return gradient + self.momentum * momentum if self.nesterov else momentum, {"momentum": momentum}

    def rate(self, part: Part) -> float:
        """The gradient has |Δ| ∝ √(fan_in / fan_out) / divisor."""
        growth = part.growth
        return growth.fan_out / growth.fan_in * growth.divisor**2


class Lion(Optimizer):
    """w ← w - lr (λ w + sign(β₁ m + (1 - β₁) g)), then m ← β₂ m + (1 - β₂) g (arXiv:2302.06675)."""

    kind: Literal["lion"] = "lion"
    lr: Rate = 1e-4
    """The peak learning rate: a tenth of AdamW's, since every weight moves by all of it."""
    betas: tuple[Beta, Beta] = (0.9, 0.99)
    weight_decay: Decay = 1.0
    """Ten times AdamW's, for the same lr λ."""

    def build(self, weights: Iterable[Weight]) -> Stepper:
        return Guarded(self, weights, self.weight_decay)

    def start(self, weight: Weight) -> State:
        return {"momentum": torch.zeros_like(weight.value)}

    def direction(self, gradient: Tensor, weight: Weight, state: State) -> tuple[Tensor, State]:
        now, after = (state["momentum"].lerp(gradient, 1 - beta) for beta in self.betas)
        return now.sign(), {"momentum": after}

    def rate(self, part: Part) -> float:
        return entrywise(part)


class Adafactor(Optimizer):
    """w ← w - lr (λ w + rms(w) u / max(1, rms(u))), u = g / √(r cᵀ / mean r), r, c means of g² (arXiv:1804.04235)."""

    kind: Literal["adafactor"] = "adafactor"
    lr: Rate = 1e-2
    """The peak learning rate, relative to the rms of the weight; only the schedule lowers it (torch: also 1 / √t)."""
    eps: tuple[Rate, Rate] = (1e-30, 1e-3)
    """Added to g² (torch bounds r cᵀ from below instead); and the least rms of a weight, so that zeros move."""
    clip: Rate = 1.0
    """The largest rms of u."""
    memory: Rate = 0.8
    """Step t weighs t^-memory in the running means, which so need no correction."""
    weight_decay: Decay = 0.0

    def build(self, weights: Iterable[Weight]) -> Stepper:
        return Guarded(self, (piece for weight in weights for piece in weight.logical()), self.weight_decay)

    def start(self, weight: Weight) -> State:
        means = row_and_column_means(torch.zeros_like(weight.value))
        return {"step": torch.zeros((), device=weight.value.device), **means}

    def direction(self, gradient: Tensor, weight: Weight, state: State) -> tuple[Tensor, State]:
        step = state["step"] + 1
        now = row_and_column_means(gradient.square() + self.eps[0])
        means = {key: state[key].lerp(mean, step.to(mean.dtype) ** -self.memory) for key, mean in now.items()}
        update = gradient
        for inverse in inverse_roots(means):
            update = update * inverse
        bounded = update / (rms(update) / self.clip).clamp(min=1)
        least = self.eps[1] * weight.parts[0].growth.spread
        return rms(weight.value).clamp(min=least) * bounded, {"step": step, **means}

    def rate(self, part: Part) -> float:
        """Entries move by a share of the rms of the weight, which is that of the initial values."""
        return entrywise(part) / part.growth.spread


class Muon(Optimizer):
    """w ← w - lr (λ w + f ortho(g + μ m)) for each hidden matrix by role, `adamw` for the rest (Jordan et al. 2024)."""

    kind: Literal["muon"] = "muon"
    momentum: Beta = 0.95
    nesterov: bool = True
    """Else ortho(m), m ← μ m + g; ortho(U S Vᵀ) is about U Vᵀ."""
    coefficients: tuple[Number, Number, Number] = (3.4445, -4.775, 2.0315)
    """Of Newton-Schulz: s ↦ a s + b s³ + c s⁵, for every singular value."""
    iterations: Annotated[Count, Field(le=100)] = 5
    adjust: Literal["match_rms_adamw", "original"] = "match_rms_adamw"
    """f of a matrix with R rows and C columns: 0.2 √max(R, C), so that rates of AdamW fit (arXiv:2502.16982); or
    √max(1, R / C), whose usual rate is 0.02."""
    weight_decay: Decay = 0.1
    adamw: Adamw = Adamw()
    """Of embeddings, head, gains and biases, with its own rate and decay. All other roles move at `lr` (query, key,
    value, output, gate, up, down, router), each matrix by itself where several are packed in one tensor."""

    def idle(self) -> Mapping[str, str]:
        return {} if self.momentum else {"nesterov": "where momentum is 0; leave it out"}

    def build(self, weights: Iterable[Weight]) -> Stepper:
        hidden: list[Weight] = []
        others: list[Weight] = []
        for weight in weights:
            (hidden if is_hidden(weight) else others).append(weight)
        pieces = [piece for weight in hidden for piece in weight.logical()]
        stepper = Stacked if stackable(pieces) else Guarded
        return Together(stepper(self, pieces, self.weight_decay), self.adamw.build(others))

    def start(self, weight: Weight) -> State:
        return {"momentum": torch.zeros_like(weight.value)}

    def direction(self, gradient: Tensor, weight: Weight, state: State) -> tuple[Tensor, State]:
        momentum = state["momentum"].lerp(gradient, 1 - self.momentum)
        ahead = gradient.lerp(momentum, self.momentum) if self.nesterov else momentum
        update = orthogonalized(ahead, self.coefficients, self.iterations, weight.compute)
        return self.factor(*weight.value.shape[-2:]) * update, {"momentum": momentum}

    def rate(self, part: Part) -> float:
        """An orthogonal matrix has |Δ| = 1, and the adjustment multiplies it by f."""
        growth = part.growth
        here = self.factor(part.rows, part.fan_in)
        there = self.factor(part.rows / growth.fan_out, part.fan_in / growth.fan_in)
        return growth.divisor * math.sqrt(growth.fan_out / growth.fan_in) * there / here

    def factor(self, rows: float, columns: float) -> float:
        """By what the update of a matrix is multiplied."""
        if self.adjust == "original":
            return math.sqrt(max(1, rows / columns))
        return 0.2 * math.sqrt(max(rows, columns))


def is_hidden(weight: Weight) -> bool:
    """Whether a weight holds matrices that map features to features, neither from tokens nor to them."""
    return weight.is_matrix and not any(part.role in (Role.EMBEDDING, Role.HEAD) for part in weight.parts)
