"""From tokens to vectors, and from vectors to logits."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.components.parameters import Linear, Part, Role, parameter
from labkit.spec import Choice


class TokenEmbedding(nn.Module):
    """x = E[token]."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.weight = parameter(torch.empty(vocab_size, width), Part(Role.EMBEDDING, vocab_size, 1))

    def forward(self, tokens_BT: Tensor) -> Tensor:
        return F.embedding(tokens_BT, self.weight)


class Head(Choice):
    """What turns the last hidden vectors into logits."""

    def build(self, vocab_size: int, width: int) -> nn.Module:
        """A module (hidden_BTD, embedding weights_VD) -> logits_BTV."""
        raise NotImplementedError


class Tied(Head):
    """logits = E x: the embedding's own matrix (arXiv:1608.05859)."""

    kind: Literal["tied"] = "tied"

    def build(self, vocab_size: int, width: int) -> nn.Module:
        return TiedHead(vocab_size, width)


class Untied(Head):
    """logits = W x, a matrix of its own."""

    kind: Literal["untied"] = "untied"

    def build(self, vocab_size: int, width: int) -> nn.Module:
        return UntiedHead(vocab_size, width)


class TiedHead(nn.Module):
    """Reads the embedding's matrix; has no parameters."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.size = vocab_size * width

    def forward(self, hidden_BTD: Tensor, weights_VD: Tensor) -> Tensor:
        return F.linear(hidden_BTD.to(weights_VD.dtype), weights_VD)

    def flops(self, length: int) -> int:
        """Of the forward pass, per token."""
        return 2 * self.size


class UntiedHead(nn.Module):
    """Has a matrix of its own."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.project = Linear(width, Part(Role.HEAD, vocab_size, width))

    def forward(self, hidden_BTD: Tensor, weights_VD: Tensor) -> Tensor:
        return self.project(hidden_BTD)
