"""From tokens to vectors, and from vectors to logits."""

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from labkit.components.mixing import Cap, capped
from labkit.components.norm import NoNorm, Norm
from labkit.components.parameters import Linear, Part, Role, parameter
from labkit.kernels import cross_entropy, embedding, linear, linear_cross_entropy
from labkit.spec import Choice, Spec


class Embedding(Spec):
    """What a token's vector passes through before the positions and the first layer."""

    scaled: bool = False
    """Whether it is multiplied by √d_model, that at base width (arXiv:1706.03762, section 3.4; Gemma)."""
    norm: Norm = NoNorm()
    """After that (BLOOM, arXiv:2211.05100)."""

    def build(self, vocab_size: int, width: int, base: int) -> "TokenEmbedding":
        """A module tokens_BT -> x_BTD, `base` the base width; the norm is built beside it."""
        return TokenEmbedding(vocab_size, width, math.sqrt(base) if self.scaled else 1.0)


class TokenEmbedding(nn.Module):
    """x = factor · E[token]."""

    def __init__(self, vocab_size: int, width: int, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor
        self.weight = parameter(torch.empty(vocab_size, width), Part(Role.EMBEDDING, vocab_size, 1))

    def forward(self, tokens_BT: Tensor) -> Tensor:
        x_BTD = embedding(tokens_BT, self.weight)
        return x_BTD if self.factor == 1.0 else x_BTD * self.factor


class Head(Choice):
    """What turns the last hidden vectors into logits."""

    softcap: Cap | None = None
    """c in c · tanh(logits / c); none: the logits as they are (Gemma 2, arXiv:2408.00118)."""

    def build(self, vocab_size: int, width: int) -> nn.Module:
        """A module (hidden_BTD, embedding weights_VD) -> logits_BTV."""
        raise NotImplementedError


class Tied(Head):
    """logits = E x: the embedding's own matrix (arXiv:1608.05859)."""

    kind: Literal["tied"] = "tied"

    def build(self, vocab_size: int, width: int) -> nn.Module:
        return TiedHead(vocab_size, width, self.softcap)


class Untied(Head):
    """logits = W x, a matrix of its own."""

    kind: Literal["untied"] = "untied"
    bias: bool = False
    """A number added to each token's logit (GPT-J)."""

    def build(self, vocab_size: int, width: int) -> nn.Module:
        return UntiedHead(vocab_size, width, self.softcap, self.bias)


class HeadModule(nn.Module):
    """logits = cap(W x + b), W the embedding's own matrix or another."""

    def __init__(self, cap: float | None) -> None:
        super().__init__()
        self.cap = cap

    def matrix(self, weights_VD: Tensor) -> tuple[Tensor, Tensor | None]:
        """W and b, given the embedding's matrix."""
        raise NotImplementedError

    def forward(self, hidden_BTD: Tensor, weights_VD: Tensor) -> Tensor:
        weight, bias = self.matrix(weights_VD)
        logits_BTV = linear(hidden_BTD.to(weight.dtype), weight, bias)
        return logits_BTV if self.cap is None else capped(logits_BTV, self.cap)

    def losses(self, hidden_ND: Tensor, weights_VD: Tensor, targets_N: Tensor, **options: Any) -> Tensor:
        """Of the logits, as `cross_entropy` has them; these are never all in memory where that is too small."""
        weight, bias = self.matrix(weights_VD)
        return linear_cross_entropy(hidden_ND, weight, targets_N, bias=bias, softcap=self.cap, **options)


def head_losses(head: nn.Module, hidden_ND: Tensor, weights_VD: Tensor, targets_N: Tensor, **options: Any) -> Tensor:
    """What `HeadModule.losses` gives, with any module for the head."""
    if isinstance(head, HeadModule):
        return head.losses(hidden_ND, weights_VD, targets_N, **options)
    return cross_entropy(head(hidden_ND, weights_VD), targets_N, overwrite=True, **options)


class TiedHead(HeadModule):
    """Reads the embedding's matrix; has no parameters."""

    def __init__(self, vocab_size: int, width: int, cap: float | None) -> None:
        super().__init__(cap)
        self.size = vocab_size * width

    def matrix(self, weights_VD: Tensor) -> tuple[Tensor, Tensor | None]:
        return weights_VD, None

    def flops(self, length: int) -> int:
        """Of the forward pass, per token."""
        return 2 * self.size


class UntiedHead(HeadModule):
    """Has a matrix of its own."""

    def __init__(self, vocab_size: int, width: int, cap: float | None, has_bias: bool) -> None:
        super().__init__(cap)
        self.project = Linear(width, Part(Role.HEAD, vocab_size, width), has_bias=has_bias)

    def matrix(self, weights_VD: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.project.weight, self.project.bias
