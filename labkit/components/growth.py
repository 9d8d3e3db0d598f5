"""How much larger a parameter is than at the width that its initial values and learning rate were chosen at.

What a matrix W computes, and what a step ΔW changes of it, stays as large at every width if the spectral norms of
W / divisor and ΔW / divisor keep the size √(fan_out / fan_in) (arXiv:2310.17813). From that follow the initial
values, here, and the learning rate of each optimizer, there.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Growth:
    """The sides of a matrix, in multiples of what they are at base width. A vector of gains or biases has fan-in 1."""

    fan_in: float = 1.0
    fan_out: float = 1.0
    divisor: float = 1.0
    """Of what it computes, in the forward pass."""

    @property
    def spread(self) -> float:
        """Of the initial values: 1 / √fan_in where both sides grow; 1 / fan_in where only the input's does."""
        return self.divisor * (1 / self.fan_in if self.fan_out == 1.0 else self.fan_in**-0.5)

    @property
    def gradient(self) -> float:
        """Of each entry of the gradient."""
        return 1 / (self.fan_out * self.divisor)


NONE = Growth()
"""Of what is as large as at base width; in the standard parametrization of everything."""
