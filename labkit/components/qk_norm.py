"""Norms of queries and keys, before or after their position.

B batch, T time, H heads of queries and then of keys, d features of a head.
"""

import torch
from torch import Tensor, nn


class QkNorm(nn.Module):
    """What packed queries and keys go through before and after they are rotated: by default nothing."""

    def before(self, qk_BTHd: Tensor) -> Tensor:
        return qk_BTHd

    def after(self, qk_BTHd: Tensor) -> Tensor:
        return qk_BTHd


class NoQkNorm(QkNorm):
    """The null norm."""


class TwoNorms(QkNorm):
    """One norm for the queries, one for the keys; over each head, or over all of them together."""

    def __init__(self, query: nn.Module, key: nn.Module, heads: tuple[int, int], is_joint: bool) -> None:
        super().__init__()
        self.query, self.key, self.n_heads, self.is_joint = query, key, heads, is_joint

    def normed(self, qk_BTHd: Tensor) -> Tensor:
        q_BTHd, k_BTKd = qk_BTHd.split(self.n_heads, dim=2)
        return torch.cat((self.one(self.query, q_BTHd), self.one(self.key, k_BTKd)), dim=2)

    def one(self, norm: nn.Module, x_BTHd: Tensor) -> Tensor:
        return norm(x_BTHd.flatten(2)).view_as(x_BTHd) if self.is_joint else norm(x_BTHd)


class NormBefore(TwoNorms):
    """Before."""

    def before(self, qk_BTHd: Tensor) -> Tensor:
        return self.normed(qk_BTHd)


class NormAfter(TwoNorms):
    """After."""

    def after(self, qk_BTHd: Tensor) -> Tensor:
        return self.normed(qk_BTHd)
