"""What the attention kernels and their reference agree on."""

from typing import NamedTuple

from torch import Tensor


class Scores(NamedTuple):
    """What a product of query and key becomes before the softmax: cap(scale · product) - slope · distance."""

    scale: float
    window: int | None = None
    """How many keys each query sees, its own included; None: all before it."""
    softcap: float | None = None
    """c of c · tanh(score / c)."""
    sinks: Tensor | None = None
    """A logit of each head in the softmax's denominator, (H); it may be learned."""
    slopes: Tensor | None = None
    """What each head's scores fall by for each token of distance, (H); fixed."""
