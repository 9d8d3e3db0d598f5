"""Where in the network a component stands."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """What a parent tells the component that it builds, apart from the width."""

    layer: int
    """Counted from 0."""
    n_layers: int
    context: int
    """The length that the model is trained at, in tokens."""
    head_growth: float = 1.0
    """How many times more features a head has than at the base width of the parametrization."""
