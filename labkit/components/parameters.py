"""Parameters that know what they are: role, fan-in, and the logical matrices that live packed in one tensor.

Initial values, decay groups, Muon, muP, checkpoints and Hugging Face names follow from roles and logical names,
never from a shape.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import torch
from torch import Tensor, nn

from labkit.components.growth import NONE, Growth
from labkit.kernels import linear
from labkit.spec import Mistake


class Role(StrEnum):
    """What a parameter does in the network."""

    EMBEDDING = "embedding"
    QUERY = "query"
    KEY = "key"
    VALUE = "value"
    OUTPUT = "output"
    GATE = "gate"
    UP = "up"
    DOWN = "down"
    ROUTER = "router"
    HEAD = "head"
    GAIN = "gain"
    BIAS = "bias"

    @property
    def is_matrix(self) -> bool:
        """Whether it is drawn at random and decayed; gains and biases start as their module made them."""
        return self not in (Role.GAIN, Role.BIAS)

    @property
    def writes_to_stream(self) -> bool:
        """Whether it is a branch's last projection, whose output is added to the residual stream."""
        return self in (Role.OUTPUT, Role.DOWN)


@dataclass(frozen=True)
class Part:
    """One logical parameter: `rows` rows of a stored tensor."""

    role: Role
    rows: int
    fan_in: int
    name: str = ""
    """Its own name among the parts of a packed tensor; empty where it is the whole of it."""
    growth: Growth = NONE
    """How much larger the parametrization says it is than at base width."""

    @property
    def at_base(self) -> "Part":
        """The same part at base width. A table of vectors has as many rows at every width."""
        rows = self.rows if self.role is Role.EMBEDDING else round(self.rows / self.growth.fan_out)
        return replace(self, rows=rows, fan_in=round(self.fan_in / self.growth.fan_in), growth=NONE)


def parameter(value: Tensor, *parts: Part) -> nn.Parameter:
    """A stored tensor that carries its parts."""
    stored = nn.Parameter(value)
    stored.parts = parts  # type: ignore[attr-defined]
    return stored


def gain(width: int, value: float = 1.0) -> nn.Parameter:
    """A vector of gains, one per feature."""
    return parameter(torch.full((width,), value), Part(Role.GAIN, width, 1))


def bias(width: int) -> nn.Parameter:
    """A vector of biases, zero at the start."""
    return parameter(torch.zeros(width), Part(Role.BIAS, width, 1))


def parts_of(name: str, stored: nn.Parameter) -> tuple[Part, ...]:
    """The parts of a parameter. A user's vector counts as a gain; a user's matrix must say its role, else Mistake."""
    parts = getattr(stored, "parts", None)
    if parts is not None:
        return parts
    if stored.ndim < 2:
        return (Part(Role.GAIN, stored.numel(), 1),)
    rows, *inner = stored.shape
    part = f"Part(Role.UP, {rows}, {math.prod(inner)})"
    linear = f"Linear({inner[0]}, {part}) or " if len(inner) == 1 else ""
    roles = ", ".join(role.name for role in Role if role.is_matrix)
    raise Mistake(
        f"{name}: a matrix of shape {tuple(stored.shape)} without a role. Make it with labkit's {linear}"
        f"parameter(value, {part}), so that its initial values, its decay and its learning rate are known. "
        f"Roles: {roles}."
    )


class Linear(nn.Module):
    """y = x Wᵀ + b, where W stacks the rows of named parts that share the input: one product for q, k and v."""

    def __init__(self, width: int, *parts: Part, has_bias: bool = False) -> None:
        super().__init__()
        rows = sum(part.rows for part in parts)
        self.weight = parameter(torch.empty(rows, width), *parts)
        self.bias = None
        if has_bias:
            self.bias = parameter(torch.zeros(rows), *(Part(Role.BIAS, part.rows, 1, part.name) for part in parts))

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., rows), in the weight's precision."""
        return linear(x.to(self.weight.dtype), self.weight, self.bias)

    def flops(self, length: int) -> int:
        """Floating-point operations of the forward pass per token."""
        return 2 * self.weight.numel()


def logical(model: nn.Module, stored: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """Every logical parameter by name, as a view of where it is stored: ``layers.0.attention.query.weight``.

    With `stored`, views of those tensors instead, which go by the names and have the shapes of the model's own.
    """
    return {name: view for name, _, view in _logical(model, stored)}


def logical_parts(model: nn.Module) -> dict[str, Part]:
    """What every logical parameter is, by name."""
    return {name: part for name, part, _ in _logical(model)}


def draw(
    model: nn.Module, seed: int, scale: Callable[[Part], float], *, under: str = "", cutoff: float = math.inf
) -> None:
    """Draw each logical matrix from N(0, scale²) by a key of its own, so that none depends on what else there is.

    `under` is the model's own name in a larger one; nothing beyond `cutoff` standard deviations is drawn.
    """
    with torch.no_grad():
        for name, part, view in _logical(model):
            if part.role.is_matrix:
                full = f"{under}.{name}" if under else name
                generator = torch.Generator(view.device).manual_seed(key(seed, full, *view.shape))
                _fill(view, scale(part), cutoff, generator)


def _fill(view: Tensor, std: float, cutoff: float, generator: torch.Generator) -> None:
    if math.isinf(cutoff):
        view.normal_(0.0, std, generator=generator)
    else:
        nn.init.trunc_normal_(view, 0.0, std, -cutoff * std, cutoff * std, generator=generator)


def key(*names: object) -> int:
    """A 63-bit key that is the same in every process."""
    text = "/".join(map(str, names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def _logical(model: nn.Module, instead: Mapping[str, Tensor] | None = None) -> Iterator[tuple[str, Part, Tensor]]:
    for name, stored in model.named_parameters():
        values = stored if instead is None else instead[name]
        module, _, kind = name.rpartition(".")
        start = 0
        for part in parts_of(name, stored):
            parent = module.rpartition(".")[0]
            owner = ".".join(filter(None, (parent, part.name))) if part.name else module
            yield f"{owner}.{kind}" if owner else kind, part, values.detach()[start : start + part.rows]
            start += part.rows
