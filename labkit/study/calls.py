"""What a user's own components are tried with: the tensors that a model gives them, at a length."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from labkit.components import Attention, FeedForward, Head, Norm, Place, Position
from labkit.components.bias import ScoreBias
from labkit.components.mixing import distances
from labkit.model import ModelSpec
from labkit.study.own import is_ours

ROWS = 2

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Trial:
    """A method of a component, what it takes, and what the module that it gives is called with."""

    part: Any
    method: str
    takes: tuple[Any, ...]
    shapes: tuple[Shape, ...]
    wanted: Shape
    work: float = 0.0
    """Operations beside those of the parameters."""
    builds: ClassVar[tuple[type[nn.Module], str]] = nn.Module, "an nn.Module"

    def build(self) -> nn.Module:
        return getattr(self.part, self.method)(*self.takes)

    def called(self, module: nn.Module) -> Any:
        """What the module gives, where tensors are made now."""
        return module(*map(torch.randn, self.shapes))

    @property
    def given(self) -> str:
        return " and ".join(map(str, self.shapes))

    def fits(self, shape: Shape) -> bool:
        return shape == self.wanted

    @property
    def name(self) -> str:
        return f"{type(self.part).__name__}.{self.method}"


@dataclass(frozen=True)
class Turning(Trial):
    """Of queries and keys, whose first token stands at an offset."""

    offset: int = 0

    def called(self, module: nn.Module) -> Any:
        return module(*map(torch.randn, self.shapes), offset=self.offset)

    @property
    def given(self) -> str:
        return f"{super().given} with offset={self.offset}"


@dataclass(frozen=True)
class Generating(Turning):
    """Of one token, beside which those before it are kept: of a module that shows its keys and values."""

    def called(self, module: Any) -> Any:
        return module.gather(module.heads(torch.randn(self.shapes[0]), self.offset))


@dataclass(frozen=True)
class Biasing(Trial):
    """Of the distances of queries, the last of as many keys."""

    builds: ClassVar[tuple[type[nn.Module], str]] = ScoreBias, "a labkit.components.bias.ScoreBias"

    def called(self, module: nn.Module) -> Any:
        queries, keys = self.shapes[0]
        return module(distances(queries, keys, keys - queries, torch.get_default_device()))

    def fits(self, shape: Shape) -> bool:
        """What is the same for every head may be given once."""
        pairs = zip(shape[::-1], self.wanted[::-1], strict=False)
        return len(shape) <= len(self.wanted) and all(have in (1, want) for have, want in pairs)


def trials(part: Any, layer: ModelSpec, vocab: int, length: int) -> Iterator[Trial]:
    """Every call of a component that stands in a layer; of one that only the whole model calls there is none."""
    width, place = layer.d_model, Place(0, layer.n_layers, layer.context)
    rows = ROWS if length == layer.context else 1
    stream = (rows, length, width)
    if isinstance(part, Attention):
        takes = (width, place, layer.position, layer.dropout.attention)
        yield Trial(part, "build", takes, (stream,), stream, 4.0 * rows * width * length**2)
        token = (rows, 1, width)
        yield Generating(part, "build", takes, (token,), token, offset=length - 1)
    elif isinstance(part, Norm | FeedForward):
        yield Trial(part, "build", (width, place), (stream,), stream)
    elif isinstance(part, Head):
        shapes, wanted = (stream, (vocab, width)), (rows, length, vocab)
        yield Trial(part, "build", (vocab, width), shapes, wanted, 2.0 * rows * length * vocab * width)
    elif isinstance(part, Position):
        yield from _positions(part, layer, place, (rows, length))


def _positions(part: Position, layer: ModelSpec, place: Place, read: tuple[int, int]) -> Iterator[Trial]:
    """Each of the three ways in that is the user's; a token by itself as well, as one is generated."""
    (rows, length), attention = read, layer.attention
    features = attention.width_of_head(layer.d_model)
    if not is_ours(type(part).build):
        stream = (rows, length, layer.d_model)
        yield Trial(part, "build", (layer.d_model, place), (stream,), stream)
    for tokens in (length, 1):
        if not is_ours(type(part).rotary):
            heads = (rows, tokens, attention.n_heads + attention.kv_heads, features)
            yield Turning(part, "rotary", (features, place), (heads,), heads, offset=length - tokens)
        if not is_ours(type(part).bias):
            scores, work = (attention.n_heads, tokens, length), 20.0 * attention.n_heads * tokens * length
            yield Biasing(part, "bias", (attention.n_heads, place), ((tokens, length),), scores, work)
