"""How the parts of a run are executed: as they are written, or by torch.compile. `captured` has the third way."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from labkit.model import Transformer
from labkit.train.passes import Losses

Part = Callable[[], None]
"""A function of tensors that stay where they are."""


@dataclass(frozen=True)
class Made:
    """What runs in place of some parts."""

    parts: tuple[Part, ...]
    how: str
    """eager, compiled or captured."""
    why: str = ""
    """It is eager although it was to be captured."""

    def notes(self, of: str) -> list[str]:
        """What a reader of the record should know."""
        return [f"{of}: eager, for it cannot be captured: {self.why}"] if self.why else []


class Eager:
    """As it is written."""

    how = "eager"

    def losses(self, model: Transformer) -> Losses:
        """What stands for the losses of a model in training."""
        return model.losses

    def made(self, *parts: Part) -> Made:
        """What stands for parts that follow on each other. They may be run here, which has to leave no trace."""
        return Made(parts, self.how)


class Compiled(Eager):
    """The model's forward and backward pass by torch.compile, the rest as it is written."""

    how = "compiled"

    def losses(self, model: Transformer) -> Losses:
        torch.use_deterministic_algorithms(torch.are_deterministic_algorithms_enabled())  # tells the compiler as well
        compiled: Any = torch.compile(model.losses, dynamic=False)
        return compiled
