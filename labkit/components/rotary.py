"""Waves over positions, and the rotation of pairs of features by them."""

from typing import Any, Self

import torch
from torch import Tensor, nn

from labkit.kernels import Rotation, rope


class Waves(nn.Module):
    """cos and sin of position · frequency: kept up to the training length, computed beyond it."""

    cos: Tensor
    sin: Tensor

    def __init__(self, frequencies: Tensor, amplitude: float, context: int) -> None:
        super().__init__()
        self.frequencies, self.amplitude = frequencies, amplitude
        cos, sin = self.tables(0, context, torch.get_default_device(), torch.float32)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def tables(self, start: int, end: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin of every angle, each (end - start, pairs); taken in fp64 on the host, so alike everywhere."""
        if device.type == "meta":  # counting a model computes nothing
            cos, sin = torch.empty(2, end - start, len(self.frequencies), device=device, dtype=dtype)
            return cos, sin
        angles = torch.outer(torch.arange(start, end, dtype=torch.float64, device="cpu"), self.frequencies)
        cos, sin = self.amplitude * angles.cos(), self.amplitude * angles.sin()
        return cos.to(device, dtype), sin.to(device, dtype)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """A change of precision takes the tables anew: those of fp32 hold no more digits as fp64."""
        super()._apply(fn, recurse)
        self.cos, self.sin = self.tables(0, len(self.cos), self.cos.device, self.cos.dtype)
        return self

    def forward(self, x: Tensor, length: int, offset: int) -> tuple[Tensor, Tensor]:
        """Of `length` positions from `offset` on, where x lives and in its precision, or fp32 if that is better."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        if offset + length <= self.cos.shape[0] and dtype == self.cos.dtype:
            return self.cos[offset : offset + length], self.sin[offset : offset + length]
        return self.tables(offset, offset + length, x.device, dtype)


class Rotary(nn.Module):
    """Rotates the first features of every head, two for each frequency, in fp32 or better."""

    def __init__(self, frequencies: Tensor, amplitude: float, layout: str, context: int) -> None:
        super().__init__()
        self.rotated, self.layout = 2 * len(frequencies), layout
        self.waves = Waves(frequencies, amplitude, context)

    def forward(self, x_BTHD: Tensor, offset: int = 0) -> Tensor:
        return rope(x_BTHD, self.rotation(x_BTHD, offset))

    def rotation(self, x_BTN: Tensor, offset: int = 0) -> Rotation:
        """What turns tokens that stand at `offset` and after."""
        cos, sin = self.waves(x_BTN, x_BTN.shape[1], offset)
        return Rotation(cos, sin, self.layout == "interleaved")
