"""Four Llama-like models and the batch that one step of each trains on.

T tokens of a sequence, B sequences of a batch, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labkit.model import ModelSpec, costs

BATCHES = 4
"""So many are drawn, and used in turn."""


class Sizes(NamedTuple):
    """Of the model: what its products are made of."""

    width: int
    layers: int
    heads: int
    shared: int
    features: int
    d_ff: int
    vocab_size: int

    @property
    def packed(self) -> int:
        """Features of queries, keys and values together."""
        return (self.heads + 2 * self.shared) * self.features


@dataclass(frozen=True)
class Setup:
    """A model and the batch of one step."""

    sizes: Sizes
    context: int
    batch_size: int

    @property
    def tokens(self) -> int:
        """Of one step."""
        return self.batch_size * self.context

    @property
    def spec(self) -> ModelSpec:
        """RMSNorm, SwiGLU, interleaved RoPE, grouped queries, a tied head."""
        sizes = self.sizes
        return ModelSpec.from_json(
            {
                "d_model": sizes.width,
                "n_layers": sizes.layers,
                "context": self.context,
                "norm": "rms",
                "residual": "pre",
                "attention": {"kind": "gqa", "n_heads": sizes.heads, "n_kv_heads": sizes.shared},
                "feedforward": {"kind": "swiglu", "d_ff": sizes.d_ff},
                "position": {"kind": "rope", "layout": "interleaved"},
                "head": "tied",
                "init": "scaled_residual",
            }
        )

    @property
    def params(self) -> int:
        """The head once."""
        return costs(self.spec, self.sizes.vocab_size).params

    @property
    def flops(self) -> int:
        """Of one step, forward and backward, of causal attention the half that is seen."""
        return self.tokens * costs(self.spec, self.sizes.vocab_size).flops_per_token

    def batches(self) -> list[Tensor]:
        """(B, T + 1) as of a text: the k-th most frequent token is drawn with a probability ∝ 1 / k."""
        odds_V = 1 / torch.arange(1, self.sizes.vocab_size + 1)
        generator = torch.Generator().manual_seed(0)
        size = (self.batch_size, self.context + 1)
        count = size[0] * size[1]
        drawn: Any = (odds_V.multinomial(count, replacement=True, generator=generator) for _ in range(BATCHES))
        return [batch.view(size) for batch in drawn]


SETUPS = {
    "launch-bound": Setup(Sizes(256, 6, 8, 4, 32, 768, 8192), 512, 16),
    "13M": Setup(Sizes(256, 6, 8, 4, 32, 768, 32_000), 1024, 32),
    "124M": Setup(Sizes(768, 12, 12, 12, 64, 2048, 50_304), 1024, 32),
    "1B": Setup(Sizes(2048, 16, 32, 8, 64, 8192, 32_000), 2048, 8),
}
