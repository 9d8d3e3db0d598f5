"""Which token comes next.

B batch, V vocabulary.
"""

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from labkit.components.parameters import key
from labkit.spec import Count, Mistake, Number, Size, Spec


class Sampling(Spec):
    """How many tokens, and how each is chosen: by temperature, then top_k, then top_p of what that leaves."""

    tokens: Size = 128
    """At most so many; the end token ends a text earlier."""
    temperature: Annotated[Number, Field(ge=0)] = 1.0
    """p = softmax(logits / temperature); 0: always the most probable token (greedy)."""
    top_k: Count | None = None
    """Only the k most probable tokens; of equal ones, those with the smaller id (arXiv:1805.04833)."""
    top_p: Annotated[Number, Field(gt=0, le=1)] = 1.0
    """Only the smallest set of most probable tokens whose probability reaches p (nucleus, arXiv:1904.09751)."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of the draws, together with the prompt: the same call gives the same text, whatever else is in the batch."""

    def probabilities(self, logits_BV: Tensor) -> Tensor:
        """p_BV of each next token, in fp64 on the host, so alike on every device. Raises Mistake for NaN."""
        logits_BV = logits_BV.detach().to("cpu", torch.float64)
        if logits_BV.isnan().any() or (logits_BV == torch.inf).any():
            raise Mistake("the model gives logits that are not finite; train it again with a lower optimizer.lr")
        below_BV = logits_BV - logits_BV.amax(-1, keepdim=True)
        if self.temperature == 0:
            return torch.nn.functional.one_hot(below_BV.argmax(-1), below_BV.shape[-1]).double()
        sorted_BV, order_BV = (below_BV / self.temperature).sort(dim=-1, descending=True, stable=True)
        return torch.zeros_like(below_BV).scatter(-1, order_BV, self._kept(sorted_BV))

    def _kept(self, sorted_BV: Tensor) -> Tensor:
        """Probabilities of descending logits; 0 for what top_k and top_p leave out."""
        odds_BV = sorted_BV.softmax(-1)
        odds_BV[:, self.top_k or odds_BV.shape[-1] :] = 0
        odds_BV = odds_BV / odds_BV.sum(-1, keepdim=True)
        if self.top_p < 1:
            before_BV = odds_BV.cumsum(-1).roll(1, -1)
            before_BV[:, 0] = 0
            odds_BV = odds_BV.masked_fill(before_BV >= self.top_p, 0)
        return odds_BV / odds_BV.sum(-1, keepdim=True)

    def draws(self, prompt: Sequence[int]) -> "Draws":
        """The uniform numbers that decide how a prompt goes on."""
        return Draws(key("generate", self.seed, *prompt))


class Draws:
    """A stream of numbers in [0, 1)."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator("cpu").manual_seed(seed)

    def __call__(self) -> float:
        return float(torch.rand((), dtype=torch.float64, generator=self.generator))


def chosen(odds_V: Tensor, draw: float) -> int:
    """The token whose share of [0, 1), in the order of the ids, the draw falls into; never one of probability 0."""
    reached_V = odds_V.cumsum(-1)
    index = torch.searchsorted(reached_V, draw * reached_V[-1], right=True)
    last = torch.searchsorted(reached_V, reached_V[-1:])[0]
    return int(torch.minimum(index, last))
