"""What the scores of attention are multiplied by."""

import math
from typing import Annotated, Literal

from pydantic import Field

from labkit.spec import Choice, Number


class ScoreScale(Choice):
    """A factor on q kᵀ; heads that have grown beyond base width divide it by their growth (muP)."""

    def factor(self, features: float) -> float:
        """For queries and keys of so many features."""
        raise NotImplementedError


class InverseRoot(ScoreScale):
    """1 / √d: unit variance where queries and keys are independent (arXiv:1706.03762)."""

    kind: Literal["inverse_root"] = "inverse_root"

    def factor(self, features: float) -> float:
        return 1 / math.sqrt(features)


class Inverse(ScoreScale):
    """1 / d: where queries and keys have learned to agree, the same at every width (muP, arXiv:2203.03466)."""

    kind: Literal["inverse"] = "inverse"

    def factor(self, features: float) -> float:
        return 1 / features


class Fixed(ScoreScale):
    """A number: 1 / √query_pre_attn_scalar in Gemma 2 (arXiv:2408.00118), 1 in T5 (arXiv:1910.10683)."""

    kind: Literal["fixed"] = "fixed"
    value: Annotated[Number, Field(gt=0)]

    def factor(self, features: float) -> float:
        return self.value
