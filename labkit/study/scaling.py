"""What a difference in size or compute is worth in loss: published scaling laws, until ladders give a baseline's own.

N parameters, C training FLOPs. Far below the sizes that the laws were fitted on they rather say too much, which makes a
verdict more careful.
"""

from collections.abc import Callable
from dataclasses import dataclass

FLOOR, A, B, ALPHA, BETA = 1.69, 406.4, 410.7, 0.34, 0.28
"""L(N, D) = 1.69 + 406.4 / N^0.34 + 410.7 / D^0.28 nats a token, for D tokens (arXiv:2203.15556, equation 10)."""


@dataclass(frozen=True)
class Law:
    """The loss, in nats a token, at a size or compute."""

    formula: str
    paper: str
    loss: Callable[[float], float]

    def __str__(self) -> str:
        return f"{self.formula} ({self.paper})"

    def worth(self, here: float, there: float) -> float:
        """|L(there) - L(here)| in nats."""
        return abs(self.loss(there) - self.loss(here))


def by_params(n: float) -> float:
    return FLOOR + A / n**ALPHA


def by_non_embedding(n: float) -> float:
    return (8.8e13 / n) ** 0.076


def by_flops(c: float) -> float:
    """The least L(N, D) with 6 N D = C, where α A / N^α = β B / D^β."""
    n = (ALPHA * A / (BETA * B)) ** (1 / (ALPHA + BETA)) * (c / 6) ** (BETA / (ALPHA + BETA))
    return by_params(n) + B / (c / 6 / n) ** BETA


_CHINCHILLA = "Chinchilla, arXiv:2203.15556"
LAWS = {
    "params": Law("L(N) = 1.69 + 406.4 / N^0.34", _CHINCHILLA, by_params),
    "active_params": Law("L(N) = 1.69 + 406.4 / N^0.34 of the active N", _CHINCHILLA, by_params),
    "non_embedding": Law("L(N) = (8.8e13 / N)^0.076", "Kaplan et al., arXiv:2001.08361", by_non_embedding),
    "flops": Law("the least 1.69 + 406.4 / N^0.34 + 410.7 / D^0.28 with 6 N D = C", _CHINCHILLA, by_flops),
}
"""By what is matched."""
