"""The residual stream, and where the norms stand around the two branches of a layer."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal

from torch import Tensor, nn

from labkit.components.dropout import KeyedDropout
from labkit.components.norm import NormModule, added
from labkit.spec import Choice


class Stream:
    """A value and the branches not yet added to it: the next norm adds them, where it can in the same pass."""

    def __init__(self, value: Tensor, *pending: Tensor) -> None:
        self.value, self.pending = value, pending

    def add(self, *branches: Tensor) -> None:
        """Let branches wait to be added."""
        self.pending += branches

    def normed(self, norm: nn.Module, uses: int = 1) -> list[Tensor]:
        """Add what is pending, and give the norm of the sum, once for each use."""
        joint = norm.added if isinstance(norm, NormModule) else partial(added, norm)
        self.value, *normed = joint(self.value, *self.pending, uses=uses)
        self.pending = ()
        return normed


class Branches(nn.Module):
    """The parts of one layer, under the same names for every placement."""

    def __init__(
        self, norms: tuple[nn.Module, nn.Module], attention: nn.Module, feedforward: nn.Module, dropout: float
    ) -> None:
        super().__init__()
        self.attention_norm, self.feedforward_norm = norms
        self.attention, self.feedforward = attention, feedforward
        self.attention_dropout, self.feedforward_dropout = KeyedDropout(dropout), KeyedDropout(dropout)

    def attend(self, x_BTD: Tensor) -> Tensor:
        return self.attention_dropout(self.attention(x_BTD))

    def feed(self, x_BTD: Tensor) -> Tensor:
        return self.feedforward_dropout(self.feedforward(x_BTD))

    @property
    def pairs(self) -> tuple[tuple[nn.Module, Callable[[Tensor], Tensor]], ...]:
        """(norm, branch) in the order that they act."""
        return (self.attention_norm, self.attend), (self.feedforward_norm, self.feed)


class Residual(Choice):
    """Where the norms stand around a layer's branches."""

    norms_at_the_end: ClassVar[bool]
    """Whether the last layer leaves a sum that still has to be normalised before the head."""

    def flow(self, branches: Branches, stream: Stream) -> None:
        """Send the stream through one layer."""
        raise NotImplementedError


class Pre(Residual):
    """x + f(norm(x)): the stream itself is never normalised (arXiv:2002.04745)."""

    kind: Literal["pre"] = "pre"
    norms_at_the_end: ClassVar[bool] = True

    def flow(self, branches: Branches, stream: Stream) -> None:
        for norm, branch in branches.pairs:
            (normed,) = stream.normed(norm)
            stream.add(branch(normed))


class Post(Residual):
    """norm(x + f(x)): the stream is normalised after each branch (arXiv:1706.03762)."""

    kind: Literal["post"] = "post"
    norms_at_the_end: ClassVar[bool] = False

    def flow(self, branches: Branches, stream: Stream) -> None:
        for norm, branch in branches.pairs:
            stream.add(branch(stream.value))
            (stream.value,) = stream.normed(norm)
