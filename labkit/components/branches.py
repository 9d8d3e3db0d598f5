"""The stream that runs through the layers, and the two branches of a layer that read and write it."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from torch import Tensor, nn

from labkit.components.dropout import KeyedDropout
from labkit.components.norm import NormModule, added
from labkit.components.place import Place
from labkit.components.scale import BranchScale


class Stream:
    """A value and the branches not yet added to it: the next norm adds them, where it can in the same pass."""

    def __init__(self, value: Tensor, *pending: Tensor) -> None:
        self.value, self.pending = value, pending

    def add(self, *branches: Tensor) -> None:
        """Let branches wait to be added."""
        self.pending += branches

    def read(self) -> Tensor:
        """Add what is pending, and give the sum as it is."""
        self.value, self.pending = sum(self.pending, self.value), ()
        return self.value

    def normed(self, norm: nn.Module, uses: int = 1) -> list[Tensor]:
        """Add what is pending, and give the norm of the sum, once for each use."""
        joint = norm.added if isinstance(norm, NormModule) else partial(added, norm)
        self.value, *normed = joint(self.value, *self.pending, uses=uses)
        self.pending = ()
        return normed


class Branch(NamedTuple):
    """One of a layer's two functions, and what stands around it."""

    function: nn.Module
    norm: nn.Module
    """Of its input, or of what the placement says; Identity where the placement has none."""
    out_norm: nn.Module
    reads: nn.Module
    scale: nn.Module
    dropout: nn.Module

    def transformed(self, x_BTD: Tensor) -> Tensor:
        """f(x)."""
        return self.function(self.reads(x_BTD))

    def written(self, out_BTD: Tensor) -> Tensor:
        """What is added to the stream."""
        return self.dropout(self.scale(out_BTD))

    def __call__(self, x_BTD: Tensor) -> Tensor:
        return self.written(self.transformed(x_BTD))


class Branches(nn.Module):
    """The parts of one layer, under the same names for every placement."""

    def __init__(
        self,
        place: Place,
        norms: Mapping[str, nn.Module],
        attention: nn.Module,
        feedforward: nn.Module,
        scales: Mapping[str, nn.Module],
        *,
        dropout: float,
    ) -> None:
        super().__init__()
        self.place = place
        for name, module in {**norms, **scales}.items():
            self.add_module(name, module)
        self.attention, self.feedforward = attention, feedforward
        self.attention_dropout, self.feedforward_dropout = KeyedDropout(dropout), KeyedDropout(dropout)

    @property
    def both(self) -> tuple[Branch, Branch]:
        """Attention and feed-forward, in the order that they act."""
        return self._branch("attention"), self._branch("feedforward")

    def _branch(self, name: str) -> Branch:
        around = ("", "_norm", "_out_norm", "_reads", "_scale", "_dropout")
        return Branch(*(getattr(self, name + suffix, NOTHING) for suffix in around))


NOTHING = nn.Identity()


def scales(scale: BranchScale, width: int, place: Place) -> dict[str, nn.Module]:
    """What both branches' inputs and outputs pass through, by name."""
    named: dict[str, nn.Module] = {}
    for branch in ("attention", "feedforward"):
        named[f"{branch}_reads"], named[f"{branch}_scale"] = scale.reads(place), scale.build(width, place)
    return named
