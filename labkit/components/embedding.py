"""From tokens to vectors, and from vectors to logits."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.components.mixing import Cap
from labkit.components.norm import NoNorm, Norm
from labkit.components.parameters import Linear, Part, Role, parameter
from labkit.kernels import embedding
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
        return TiedHead(vocab_size, width, softcap(self.softcap))


class Untied(Head):
    """logits = W x, a matrix of its own."""

    kind: Literal["untied"] = "untied"
    bias: bool = False
    """A number added to each token's logit (GPT-J)."""

    def build(self, vocab_size: int, width: int) -> nn.Module:
        return UntiedHead(vocab_size, width, softcap(self.softcap), self.bias)


class SoftCap(nn.Module):
    """c · tanh(x / c): the identity near zero, never beyond ±c."""

    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, x: Tensor) -> Tensor:
        return self.cap * torch.tanh(x / self.cap)


def softcap(cap: float | None) -> nn.Module:
    return nn.Identity() if cap is None else SoftCap(cap)


class TiedHead(nn.Module):
    """Reads the embedding's matrix; has no parameters."""

    def __init__(self, vocab_size: int, width: int, cap: nn.Module) -> None:
        super().__init__()
        self.size, self.cap = vocab_size * width, cap

    def forward(self, hidden_BTD: Tensor, weights_VD: Tensor) -> Tensor:
        return self.cap(F.linear(hidden_BTD.to(weights_VD.dtype), weights_VD))

    def flops(self, length: int) -> int:
        """Of the forward pass, per token."""
        return 2 * self.size


class UntiedHead(nn.Module):
    """Has a matrix of its own."""

    def __init__(self, vocab_size: int, width: int, cap: nn.Module, has_bias: bool) -> None:
        super().__init__()
        self.project, self.cap = Linear(width, Part(Role.HEAD, vocab_size, width), has_bias=has_bias), cap

    def forward(self, hidden_BTD: Tensor, weights_VD: Tensor) -> Tensor:
        return self.cap(self.project(hidden_BTD))
