"""The spread of the initial values. Gains start at one, biases at zero; only matrices are drawn."""

import math
from typing import Annotated, Literal

from pydantic import Field

from labkit.components.parameters import Part
from labkit.spec import Choice, Number


class Init(Choice):
    """The standard deviation of each matrix's initial values."""

    def scale(self, part: Part, n_layers: int) -> float:
        """For one logical matrix of a model of `n_layers` layers."""
        raise NotImplementedError


class Normal(Init):
    """N(0, std²) for every matrix."""

    kind: Literal["normal"] = "normal"
    std: Annotated[Number, Field(gt=0, le=10)] = 0.02

    def scale(self, part: Part, n_layers: int) -> float:
        return self.std


class ScaledResidual(Init):
    """N(0, std²); std / √(2 · n_layers) for the projections that write to the residual stream (GPT-2, section 2.3)."""

    kind: Literal["scaled_residual"] = "scaled_residual"
    std: Annotated[Number, Field(gt=0, le=10)] = 0.02

    def scale(self, part: Part, n_layers: int) -> float:
        return self.std / math.sqrt(2 * n_layers) if part.role.writes_to_stream else self.std
