"""Norms of queries and keys, before or after their position.

B batch, T time, H heads of queries and then of keys, d features of a head.
"""

from collections.abc import Callable

from torch import Tensor, nn

Turn = Callable[[Tensor], Tensor]
"""What gives heads their position."""


class QkNorm(nn.Module):
    """What packed queries and keys go through around their rotation: by default nothing."""

    def __init__(self, heads: tuple[int, int]) -> None:
        super().__init__()
        self.n_heads = heads

    def forward(self, qk_BTHd: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        """The queries and the keys, turned."""
        return self.parted(turn(qk_BTHd))

    def parted(self, qk_BTHd: Tensor) -> tuple[Tensor, Tensor]:
        q_BTHd, k_BTKd = qk_BTHd.split(self.n_heads, dim=2)
        return q_BTHd, k_BTKd


class TwoNorms(QkNorm):
    """One norm for the queries, one for the keys; over each head, or over all of them together."""

    def __init__(self, query: nn.Module, key: nn.Module, heads: tuple[int, int], is_joint: bool) -> None:
        super().__init__(heads)
        self.query, self.key, self.is_joint = query, key, is_joint

    def normed(self, q_BTHd: Tensor, k_BTKd: Tensor) -> tuple[Tensor, Tensor]:
        return self.one(self.query, q_BTHd), self.one(self.key, k_BTKd)

    def one(self, norm: nn.Module, x_BTHd: Tensor) -> Tensor:
        return norm(x_BTHd.flatten(2)).view_as(x_BTHd) if self.is_joint else norm(x_BTHd)


class NormBefore(TwoNorms):
    """Before."""

    def forward(self, qk_BTHd: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        q_BTHd, k_BTKd = self.normed(*self.parted(qk_BTHd))
        return turn(q_BTHd), turn(k_BTKd)


class NormAfter(TwoNorms):
    """After."""

    def forward(self, qk_BTHd: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        return self.normed(*self.parted(turn(qk_BTHd)))
