"""The spread of the initial values: normal for matrices; gains and biases start as their modules made them."""

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from labkit.components.parameters import Part, Role
from labkit.components.place import Place
from labkit.spec import Choice, Number

Spread = Annotated[Number, Field(gt=0, le=10)]


class Init(Choice):
    """The standard deviation of each matrix's initial values."""

    cutoff: ClassVar[float] = math.inf
    """Values further out than this many standard deviations are not drawn."""

    def scale(self, part: Part, place: Place, width: int) -> float:
        """For one logical matrix at a place in a model of that width."""
        raise NotImplementedError


class Normal(Init):
    """N(0, std²) for every matrix."""

    kind: Literal["normal"] = "normal"
    std: Spread = 0.02
    """The standard deviation; under mup that at base width."""

    def scale(self, part: Part, place: Place, width: int) -> float:
        return self.std


class ScaledResidual(Init):
    """N(0, std²); std / √(2 · n_layers) for the projections that write to the residual stream (GPT-2, section 2.3)."""

    kind: Literal["scaled_residual"] = "scaled_residual"
    std: Spread = 0.02
    """The standard deviation; under mup that at base width."""

    def scale(self, part: Part, place: Place, width: int) -> float:
        return self.std / math.sqrt(2 * place.n_layers) if part.role.writes_to_stream else self.std


class Mitchell(Init):
    """1 / √fan_in; 1 / √(2 l fan_in) for what writes to the stream in layer l, up to 3 (OLMo, arXiv:2402.00838)."""

    kind: Literal["mitchell"] = "mitchell"
    cutoff: ClassVar[float] = 3.0

    def scale(self, part: Part, place: Place, width: int) -> float:
        if part.role is Role.EMBEDDING:
            return 1 / math.sqrt(width)
        times = 2 * (place.layer + 1) if part.role.writes_to_stream else 1
        return 1 / math.sqrt(times * part.fan_in)


class Xavier(Init):
    """N(0, 2 / (fan_in + fan_out)): variance is kept on the way there and back (Glorot and Bengio, AISTATS 2010)."""

    kind: Literal["xavier"] = "xavier"

    def scale(self, part: Part, place: Place, width: int) -> float:
        columns = width if part.role is Role.EMBEDDING else part.fan_in
        return math.sqrt(2 / (part.rows + columns))


class ZeroOutput(Init):
    """N(0, std²); zero for what writes to the stream, so that each layer starts as the identity (arXiv:1901.09321)."""

    kind: Literal["zero_output"] = "zero_output"
    std: Spread = 0.02
    """The standard deviation; under mup that at base width."""

    def scale(self, part: Part, place: Place, width: int) -> float:
        return 0.0 if part.role.writes_to_stream else self.std
