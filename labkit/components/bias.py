"""What positions add to the scores of attention.

H heads, T queries, S keys.
"""

import math

import torch
from torch import Tensor, nn

from labkit.components.parameters import Part, Role, parameter
from labkit.kernels import Scores


class ScoreBias(nn.Module):
    """A bias of each head, as a function of how many tokens the key lies before the query."""

    def forward(self, distance_TS: Tensor) -> Tensor:
        """Distances, integers and not negative where a query sees the key -> bias_HTS."""
        raise NotImplementedError

    def added(self, scores_BHTS: Tensor, distance_TS: Tensor) -> Tensor:
        """The scaled scores with the bias."""
        return scores_BHTS + self(distance_TS).to(scores_BHTS.dtype)

    def told(self, scores: Scores) -> Scores | None:
        """The same scores with the bias, for a fused kernel; None where it knows no such bias."""
        return None


class NoBias(ScoreBias):
    """The null bias."""

    def forward(self, distance_TS: Tensor) -> Tensor:
        return torch.zeros((1, *distance_TS.shape), device=distance_TS.device)

    def added(self, scores_BHTS: Tensor, distance_TS: Tensor) -> Tensor:
        return scores_BHTS

    def told(self, scores: Scores) -> Scores | None:
        return scores


class SlopeBias(ScoreBias):
    """-slope · distance, with a fixed slope for each head."""

    slopes: Tensor

    def __init__(self, slopes: list[float]) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(slopes, dtype=torch.float64), persistent=False)

    def forward(self, distance_TS: Tensor) -> Tensor:
        return -self.slopes[:, None, None] * distance_TS

    def told(self, scores: Scores) -> Scores | None:
        return scores._replace(slopes=self.slopes.float())


def alibi_slopes(n_heads: int) -> list[float]:
    """2^(-8h/n) for h = 1 … n, a power of two; else the n below it, then every other one of 2n (the authors' code)."""
    below = 2 ** int(math.log2(n_heads))
    series = [2.0 ** (-8 * h / below) for h in range(1, below + 1)]
    between = [2.0 ** (-8 * h / (2 * below)) for h in range(1, 2 * below + 1, 2)]
    return series + between[: n_heads - below]


class BucketBias(ScoreBias):
    """A learned number for each head and bucket of distances: half are single, half grow with their logarithm."""

    def __init__(self, n_heads: int, buckets: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.weight = parameter(torch.empty(buckets, n_heads), Part(Role.EMBEDDING, buckets, 1))

    def bucket(self, distance_TS: Tensor) -> Tensor:
        """The bucket of each distance; keys after the query share that of distance 0."""
        buckets, distance_TS = self.weight.shape[0], distance_TS.clamp(min=0)
        single = buckets // 2
        growth = torch.log(distance_TS.clamp(min=single).double() / single) / math.log(self.max_distance / single)
        grown = single + (growth * (buckets - single)).long()
        return torch.where(distance_TS < single, distance_TS, grown.clamp(max=buckets - 1))

    def forward(self, distance_TS: Tensor) -> Tensor:
        return self.weight[self.bucket(distance_TS)].movedim(-1, 0)
