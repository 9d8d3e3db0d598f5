"""How rotary angles change so that a model reads further than they were trained for."""

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from labkit.spec import Choice, Count, Number

Factor = Annotated[Number, Field(ge=1)]
"""How many times further the model shall read."""
Positive = Annotated[Number, Field(gt=0)]


class RopeScaling(Choice):
    """What becomes of the frequencies theta^(-2i/d), one a pair of features."""

    def frequencies(self, theta: float, rotated: int, context: int) -> Tensor:
        """The angle per token of each pair, (rotated / 2) in fp64 on the host; `context` is the training length."""
        return unscaled(theta, rotated)

    @property
    def amplitude(self) -> float:
        """What cosines and sines are multiplied by, and so what the scores are multiplied by the square of."""
        return 1.0

    def fault(self, theta: float, rotated: int) -> str | None:
        """Why this cannot work on that base and number of features, or None."""
        return None


class NoScaling(RopeScaling):
    """The frequencies theta^(-2i/d) as they are (arXiv:2104.09864)."""

    kind: Literal["none"] = "none"


class LinearScaling(RopeScaling):
    """theta^(-2i/d) / factor: positions are squeezed into the trained length (arXiv:2306.15595)."""

    kind: Literal["linear"] = "linear"
    factor: Factor

    def frequencies(self, theta: float, rotated: int, context: int) -> Tensor:
        return unscaled(theta, rotated) / self.factor


class NtkScaling(RopeScaling):
    """(theta · factor^(d/(d-2)))^(-2i/d): only the slowest pair is squeezed by the whole factor (arXiv:2309.00071)."""

    kind: Literal["ntk"] = "ntk"
    factor: Factor

    def frequencies(self, theta: float, rotated: int, context: int) -> Tensor:
        return unscaled(theta * self.factor ** (rotated / (rotated - 2)), rotated)

    def fault(self, theta: float, rotated: int) -> str | None:
        if rotated < 4:
            return f"scaling ntk spreads its factor over at least 4 rotated features, but there are {rotated}"
        return None


class YarnScaling(RopeScaling):
    """f · (1 - ramp + ramp / factor) by the turns a pair makes in the trained length (YaRN, arXiv:2309.00071)."""

    kind: Literal["yarn"] = "yarn"
    factor: Factor
    original: Count | None = None
    """The length that the unscaled angles were trained at, in tokens; the model's context unless given."""
    beta_fast: Positive = 32.0
    """Pairs that turn more often than this in the original length stay as they are."""
    beta_slow: Positive = 1.0
    """Pairs that turn less often are squeezed by the whole factor."""
    truncate: bool = True
    """Whether the ends of the ramp are rounded outwards to whole pairs."""
    attention_factor: Positive | None = None
    """The amplitude of cosines and sines; 0.1 ln(factor) + 1 unless given."""

    def frequencies(self, theta: float, rotated: int, context: int) -> Tensor:
        low, high = self.ramp(theta, rotated, self.original or context)
        pairs = torch.arange(rotated // 2, dtype=torch.float64, device="cpu")
        squeezed = ((pairs - low) / (high - low)).clamp(0, 1)
        return squeezed_by(self.factor, unscaled(theta, rotated), squeezed)

    def ramp(self, theta: float, rotated: int, original: int) -> tuple[float, float]:
        """Between which pairs the squeezing sets in."""
        low, high = (
            rotated * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))
            for turns in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, rotated - 1)
        return low, max(high, low + 0.001)

    @property
    def amplitude(self) -> float:
        return self.attention_factor or 0.1 * math.log(self.factor) + 1.0

    def fault(self, theta: float, rotated: int) -> str | None:
        if theta <= 1:
            return f"scaling yarn needs theta above 1, but theta is {theta:g}"
        if self.beta_fast <= self.beta_slow:
            return f"scaling.beta_fast {self.beta_fast:g} must be above scaling.beta_slow {self.beta_slow:g}"
        return None


class Llama3Scaling(RopeScaling):
    """f · (kept + (1 - kept) / factor), kept = clamp((f L / 2π - low) / (high - low), 0, 1) (arXiv:2407.21783)."""

    kind: Literal["llama3"] = "llama3"
    factor: Factor
    original: Count | None = None
    """L, the length that the unscaled angles were trained at, in tokens; the model's context unless given."""
    low_frequency: Positive = 1.0
    """Pairs that turn less often than this in the original length are squeezed by the whole factor."""
    high_frequency: Positive = 4.0
    """Pairs that turn more often stay as they are."""

    def frequencies(self, theta: float, rotated: int, context: int) -> Tensor:
        plain = unscaled(theta, rotated)
        turns = plain * (self.original or context) / (2 * math.pi)
        kept = ((turns - self.low_frequency) / (self.high_frequency - self.low_frequency)).clamp(0, 1)
        return squeezed_by(self.factor, plain, 1 - kept)

    def fault(self, theta: float, rotated: int) -> str | None:
        if self.high_frequency <= self.low_frequency:
            low, high = self.low_frequency, self.high_frequency
            return f"scaling.high_frequency {high:g} must be above scaling.low_frequency {low:g}"
        return None


def unscaled(theta: float, rotated: int) -> Tensor:
    """theta^(-2i/d), (rotated / 2) in fp64; taken on the host, so alike everywhere."""
    return theta ** (-torch.arange(0, rotated, 2, dtype=torch.float64, device="cpu") / rotated)


def squeezed_by(factor: float, frequencies: Tensor, share: Tensor) -> Tensor:
    """Each frequency divided by the factor to the extent of its share."""
    return frequencies * (1 - share) + frequencies / factor * share
