"""The parameters as the optimizer sees them: masters, and one flat gradient.

    fp32, fp64   every parameter is its own master
    bf16         matrices compute in bf16 and have fp32 masters; vectors (gains, biases) stay fp32

Gradients of all micro-batches add up in the masters' precision, in one tensor: its norm is one operation.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from labkit.components.growth import NONE
from labkit.components.parameters import Part, logical, parts_of
from labkit.kernels import grad_norm
from labkit.kernels.gradient import Gathering

Precision = Literal["fp32", "bf16", "fp64"]
"""What a run computes in; a choice of the run spec, never of the device."""

MASTER = {"fp32": torch.float32, "bf16": torch.float32, "fp64": torch.float64}
COMPUTE = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp64": torch.float64}

ALIGNED = 16
"""A kernel reads best what lies at a multiple of so many elements."""


@dataclass(frozen=True)
class Weight:
    """One tensor to step, with its gradient at `value.grad`: a master, or one logical parameter in the rows of it."""

    name: str
    value: Tensor
    parts: tuple[Part, ...]
    compute: torch.dtype
    """What the model computes with it in."""
    copy: Tensor | None = None
    """What the model computes with, where that is not the value itself."""

    @property
    def is_matrix(self) -> bool:
        """Whether it decays."""
        return is_matrix(self.parts)

    def logical(self) -> Iterator["Weight"]:
        """Each logical parameter in it, as a view: query, key and value of a packed product."""
        if len(self.parts) == 1:
            yield self
            return
        assert self.value.grad is not None
        rows = [part.rows for part in self.parts]
        copies = [None] * len(rows) if self.copy is None else self.copy.split(rows)
        pieces = zip(self.parts, self.value.split(rows), self.value.grad.split(rows), copies, strict=True)
        for part, value, gradient, copy in pieces:
            value.grad = gradient
            yield Weight(f"{self.name}/{part.name}", value, (part,), self.compute, copy)


class Rates(Protocol):
    """Whose learning rate depends on what a part has grown to."""

    @property
    def lr(self) -> float: ...

    def rate(self, part: Part) -> float:
        """By what the learning rate of a part is multiplied."""
        ...


def groups(weights: Iterable[Weight], rates: Rates, weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups as torch's optimizers take them: matrices, which decay, and gains and biases, which do not.

    Parts that differ in their rate go into groups of their own, and lr · weight_decay is the same for all matrices.
    `gradient` is what the parametrization says of the size of the gradient's entries.
    """
    split: dict[tuple[bool, float, float], list[Weight]] = {}
    for weight in weights:
        for piece in _alike(weight, rates):
            split.setdefault((piece.is_matrix, *_kind(piece.parts[0], rates)), []).append(piece)
    return [
        {
            "params": [(weight.name, weight.value) for weight in members],
            "weights": members,
            "lr": rates.lr * rate,
            "weight_decay": weight_decay / rate if decays else 0.0,
            "gradient": gradient,
        }
        for (decays, rate, gradient), members in sorted(split.items(), key=lambda group: not group[0][0])
    ]


def _alike(weight: Weight, rates: Rates) -> Iterable[Weight]:
    """The weight as it is stored, or its logical parameters where they differ."""
    return [weight] if len({_kind(part, rates) for part in weight.parts}) == 1 else weight.logical()


def _kind(part: Part, rates: Rates) -> tuple[float, float]:
    return rates.rate(part) if part.growth != NONE else 1.0, part.growth.gradient


class Weights:
    """Puts a model's parameters into a precision, in place; `masters` are what is stepped, saved and restored."""

    def __init__(self, model: nn.Module, precision: Precision) -> None:
        self.model = model
        named = dict(model.named_parameters())
        self.parts = {name: parts_of(name, stored) for name, stored in named.items()}
        self.compute = {
            name: COMPUTE[precision] if is_matrix(parts) else MASTER[precision] for name, parts in self.parts.items()
        }
        self.masters = {name: stored.detach().to(MASTER[precision]) for name, stored in named.items()}
        count, device = sum(stored.numel() for stored in named.values()), next(iter(named.values())).device
        after = -(-count // ALIGNED) * ALIGNED
        self.summed = torch.zeros(after + 1, dtype=MASTER[precision], device=device)
        """What adds up over a step's micro-batches and processes: the gradient, and behind it the loss."""
        self.gradient, self.loss = self.summed[:count], self.summed[after]
        self.copies: dict[str, Tensor] = {}
        self.places: list[Gathering] = []
        places = self.gradient.split([stored.numel() for stored in named.values()])
        for (name, stored), place in zip(named.items(), places, strict=True):
            master = self.masters[name]
            master.grad = place.view_as(master)
            self._place(name, stored)

    def _place(self, name: str, stored: nn.Parameter) -> None:
        """Let the parameter share its master, or be a copy of it; its gradients gather at the master."""
        master, dtype = self.masters[name], self.compute[name]
        stored.data = master.to(dtype)
        assert master.grad is not None
        place = stored.gathering = Gathering(master.grad)  # type: ignore[attr-defined]
        stored.register_post_accumulate_grad_hook(partial(_hand_over, place))
        self.places.append(place)
        if dtype != master.dtype:
            self.copies[name] = stored.detach()

    def logical(self) -> dict[str, Tensor]:
        """Views of the masters by the names of the logical parameters."""
        return logical(self.model, self.masters)

    def __iter__(self) -> Iterator[Weight]:
        """What there is to step, in the order of the model."""
        for name, master in self.masters.items():
            yield Weight(name, master, self.parts[name], self.compute[name], self.copies.get(name))

    def forget_gradients(self) -> None:
        self.gradient.zero_()

    @contextmanager
    def replaced(self) -> Generator[None]:
        """Gradients that arrive inside take the place of those before; where none arrives it is zero."""
        for place in self.places:
            place.is_awaited = True
        yield
        for place in self.places:
            place.close()

    def norm(self) -> Tensor:
        """The global norm of the gradient, in a fixed order."""
        return grad_norm(self.gradient)

    def publish(self) -> None:
        """Round the masters into the copies that the model computes with."""
        for name, copy in self.copies.items():
            copy.copy_(self.masters[name])


def is_matrix(parts: Iterable[Part]) -> bool:
    """Whether a stored parameter holds matrices, by the roles of its parts."""
    return any(part.role.is_matrix for part in parts)


def _hand_over(place: Gathering, stored: Tensor) -> None:
    """Of a gradient that was not written into its place at once: then there is none."""
    if stored.grad is not None:
        place.take(stored.grad)
        stored.grad = None
