"""How the network knows the order of the tokens: added to the embeddings, or rotated into queries and keys."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from labkit.components.parameters import Part, Role, parameter
from labkit.components.place import Place
from labkit.spec import Choice, Number


class Position(Choice):
    """How positions enter; by default nowhere."""

    def build(self, width: int, place: Place) -> nn.Module:
        """What the embeddings x_BTD pass through."""
        return nn.Identity()

    def rotary(self, head_dim: int, place: Place) -> nn.Module:
        """What queries and keys x_BTHD pass through."""
        return nn.Identity()

    def reach(self, context: int) -> int | None:
        """The longest sequence that can be encoded, in tokens; None: any."""
        return None

    def fault(self, head_dim: int) -> str | None:
        """Why this cannot work on heads of that size, or None."""
        return None


class Rope(Position):
    """Pairs of features (a, b) of q and k turn by position · theta^(-2i/d) (arXiv:2104.09864)."""

    kind: Literal["rope"] = "rope"
    theta: Annotated[Number, Field(ge=1)] = 10_000.0
    layout: Literal["half", "interleaved"] = "half"
    """Which features make a pair: i and i + d/2 (GPT-NeoX, Llama), or 2i and 2i + 1 (GPT-J)."""
    fraction: Annotated[Number, Field(gt=0, le=1)] = 1.0
    """The share of each head that turns; the rest passes unchanged."""

    def rotary(self, head_dim: int, place: Place) -> nn.Module:
        return Rotary(self.rotated(head_dim), self.theta, self.layout, place.context)

    def rotated(self, head_dim: int) -> int:
        """How many features of each head turn."""
        return int(head_dim * self.fraction)

    def fault(self, head_dim: int) -> str | None:
        rotated = self.rotated(head_dim)
        if rotated < 2 or rotated % 2:
            share = f"{self.fraction:g} of head_dim {head_dim}"
            return f"rope turns pairs of features, but {share} is {rotated} features; make that an even number"
        return None


class Learned(Position):
    """x + P[position], one learned vector per position up to the training length (arXiv:1706.03762, section 3.5)."""

    kind: Literal["learned"] = "learned"

    def build(self, width: int, place: Place) -> nn.Module:
        return LearnedPositions(width, place.context)

    def reach(self, context: int) -> int | None:
        return context


class NoPosition(Position):
    """Nothing: the causal mask alone tells order (NoPE, arXiv:2305.19466)."""

    kind: Literal["none"] = "none"


class LearnedPositions(nn.Module):
    """One vector per position, added to the embeddings."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.weight = parameter(torch.empty(context, width), Part(Role.EMBEDDING, context, 1))

    def forward(self, x_BTD: Tensor) -> Tensor:
        return x_BTD + self.weight[: x_BTD.shape[1]]


class Rotary(nn.Module):
    """Rotates the first `rotated` features of every head, in fp32 or better."""

    cos: Tensor
    sin: Tensor

    def __init__(self, rotated: int, theta: float, layout: str, context: int) -> None:
        super().__init__()
        self.rotated, self.theta, self.layout = rotated, theta, layout
        cos, sin = self.tables(context, torch.get_default_device(), torch.float32)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def tables(self, length: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin of every angle, each (length, 1, rotated / 2); taken in fp64 on the host, so alike everywhere."""
        if device.type == "meta":
            cos, sin = torch.empty(2, length, 1, self.rotated // 2, device=device, dtype=dtype)
            return cos, sin
        pairs = torch.arange(0, self.rotated, 2, dtype=torch.float64, device="cpu")
        positions = torch.arange(length, dtype=torch.float64, device="cpu")
        angles = torch.outer(positions, self.theta ** (-pairs / self.rotated)).unsqueeze(1)
        return angles.cos().to(device, dtype), angles.sin().to(device, dtype)

    def forward(self, x_BTHD: Tensor) -> Tensor:
        length, dtype = x_BTHD.shape[1], torch.promote_types(x_BTHD.dtype, torch.float32)
        if length <= self.cos.shape[0] and dtype == self.cos.dtype:
            cos, sin = self.cos[:length], self.sin[:length]
        else:
            cos, sin = self.tables(length, x_BTHD.device, dtype)
        turned = rotate(x_BTHD[..., : self.rotated].to(dtype), cos, sin, self.layout).to(x_BTHD.dtype)
        if self.rotated == x_BTHD.shape[-1]:
            return turned
        return torch.cat((turned, x_BTHD[..., self.rotated :]), dim=-1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """(a, b) -> (a cos - b sin, b cos + a sin) for each pair of features of x (..., d); cos, sin are (..., d / 2)."""
    if layout == "half":
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
