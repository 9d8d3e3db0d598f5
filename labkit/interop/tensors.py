"""Where a model's logical parameters lie in a file of transformers: by module, with what their layouts differ in.

Names have * for the layer. Gains are called weights there; weights and biases are called the same.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from labkit.components.position import Rope
from labkit.model import ModelSpec
from labkit.spec import Mistake


class Layout:
    """How the parameters of several modules lie in one tensor: their rows one after another."""

    def join(self, parts: Sequence[Tensor], spec: ModelSpec) -> Tensor:
        return torch.cat(list(parts)) if len(parts) > 1 else parts[0]

    def split(self, stored: Tensor, sizes: Sequence[int], spec: ModelSpec) -> Sequence[Tensor]:
        """The parts, of so many rows each."""
        return stored.split(list(sizes))


STACKED = Layout()


class Transposed(Layout):
    """Matrices lie as (in, out): GPT-2's Conv1D."""

    def join(self, parts: Sequence[Tensor], spec: ModelSpec) -> Tensor:
        return transposed(super().join(parts, spec))

    def split(self, stored: Tensor, sizes: Sequence[int], spec: ModelSpec) -> Sequence[Tensor]:
        return super().split(transposed(stored), sizes, spec)


class ByHead(Layout):
    """Each head's query, key and value lie together: GPT-NeoX."""

    def join(self, parts: Sequence[Tensor], spec: ModelSpec) -> Tensor:
        heads = [part.unflatten(0, (spec.attention.n_heads, -1)) for part in parts]
        return torch.stack(heads, dim=1).flatten(0, 2)

    def split(self, stored: Tensor, sizes: Sequence[int], spec: ModelSpec) -> Sequence[Tensor]:
        heads = stored.unflatten(0, (spec.attention.n_heads, len(sizes), -1))
        return [part.flatten(0, 1) for part in heads.unbind(1)]


def transposed(stored: Tensor) -> Tensor:
    """The transposed matrix; a bias as it is."""
    return stored.T if stored.ndim == 2 else stored


@dataclass(frozen=True)
class Modules:
    """The modules that a tensor of transformers holds."""

    theirs: str
    ours: tuple[str, ...]
    layout: Layout = STACKED


def modules(pairs: Mapping[str, str]) -> tuple[Modules, ...]:
    """One module for each: our name -> their name."""
    return tuple(Modules(theirs, (ours,)) for ours, theirs in pairs.items())


@dataclass(frozen=True)
class Tensors:
    """All modules of an architecture."""

    table: tuple[Modules, ...]
    turns: str = "half"
    """The layout of the architecture's rotated features."""

    def written(self, weights: Mapping[str, Tensor], spec: ModelSpec) -> dict[str, Tensor]:
        """Logical parameters -> tensors of transformers."""
        weights = turned(weights, spec, self.turns)
        return {
            theirs: entry.layout.join([weights[name] for name in ours], spec).contiguous()
            for theirs, ours, entry in self.pairs(weights, spec)
        }

    def read(
        self, find: Callable[[str], Tensor], shapes: Mapping[str, torch.Size], spec: ModelSpec
    ) -> dict[str, Tensor]:
        """Tensors of transformers -> logical parameters of these shapes. Raises Mistake for one that does not fit."""
        found: dict[str, Tensor] = {}
        for theirs, ours, entry in self.pairs(shapes, spec):
            stored = _fitting(theirs, find(theirs), entry.layout, [shapes[name] for name in ours], spec)
            parts = entry.layout.split(stored, [shapes[name][0] for name in ours], spec)
            found |= dict(zip(ours, parts, strict=True))
        return found

    def pairs(self, present: Collection[str], spec: ModelSpec) -> Iterator[tuple[str, tuple[str, ...], Modules]]:
        """(their tensor, our parameters, what holds them) for all of our names that are present."""
        for entry in self.table:
            for layer in range(spec.n_layers) if "*" in entry.theirs else (0,):
                for kind, their_kind in (("weight", "weight"), ("gain", "weight"), ("bias", "bias")):
                    ours = tuple(f"{name}.{kind}".replace("*", str(layer)) for name in entry.ours)
                    if all(name in present for name in ours):
                        yield f"{entry.theirs}.{their_kind}".replace("*", str(layer)), ours, entry


def turned(weights: Mapping[str, Tensor], spec: ModelSpec, layout: str) -> Mapping[str, Tensor]:
    """The weights with the features of queries and keys in another order, in which the rotated pairs lie so.

    Scores are sums over features, so any order that queries and keys share gives the same ones.
    """
    changed: dict[str, Tensor] = {}
    for index, layer in enumerate(spec.layers):
        rope = layer.position
        if not isinstance(rope, Rope) or rope.layout == layout:
            continue
        head_dim = layer.attention.width_of_head(layer.d_model)
        order = halves(rope.rotated(head_dim), head_dim)
        order = order if layout == "half" else order.argsort()
        for name in (f"{norm}{which}" for norm in ("", "qk_norm.") for which in ("query", "key")):
            for kind in ("weight", "gain", "bias"):
                path = f"layers.{index}.attention.{name}.{kind}"
                if path in weights:
                    changed[path] = weights[path].unflatten(0, (-1, head_dim))[:, order].flatten(0, 1)
    return {**weights, **changed}


def halves(rotated: int, head_dim: int) -> Tensor:
    """Where each feature of the half layout lies in the interleaved one."""
    return torch.cat((torch.arange(0, rotated, 2), torch.arange(1, rotated, 2), torch.arange(rotated, head_dim)))


def _fitting(name: str, stored: Tensor, layout: Layout, shapes: Sequence[torch.Size], spec: ModelSpec) -> Tensor:
    """The tensor, if it has the shape that parts of these shapes make."""
    wanted = layout.join([torch.empty(shape, device="meta") for shape in shapes], spec).shape
    if wanted != stored.shape:
        raise Mistake(f"{name}: its shape is {tuple(stored.shape)}, but config.json makes it {tuple(wanted)}")
    return stored
