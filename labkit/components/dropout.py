"""Dropout whose masks are a pure function of (seed, step, row of the global batch, site, element)."""

from typing import Annotated, Any

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from labkit.components.parameters import key
from labkit.spec import Number, Spec

Rate = Annotated[Number, Field(ge=0, lt=1)]


class Dropout(Spec):
    """The share of activations set to zero in training; a plain number sets all three (arXiv:1207.0580)."""

    embedding: Rate = 0.0
    attention: Rate = 0.0
    """Of the attention probabilities."""
    residual: Rate = 0.0
    """Of what each branch adds to the stream."""

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        return dict.fromkeys(cls.model_fields, value) if isinstance(value, int | float) else value


class KeyedDropout(nn.Module):
    """Zeroes a share of x and scales up the rest: one key, one mask, on any device, however the batch is split."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.site = 0
        self.key = torch.zeros(3, dtype=torch.int64, device="cpu")

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        kept = uniform(self.key.to(x.device), self.site, x.shape) >= self.rate
        return x * kept / (1.0 - self.rate)


def place_sites(model: nn.Module, shared_key: Tensor) -> None:
    """Give every dropout of a model a site of its own, by its name, and the key (seed, step, first row) they share."""
    for name, module in model.named_modules():
        if isinstance(module, KeyedDropout):
            module.site, module.key = key(name), shared_key


def uniform(key_: Tensor, site: int, shape: torch.Size) -> Tensor:
    """Numbers in [0, 1) for x (B, ...): splitmix64 (doi:10.1145/2714064.2660195), one stream per row."""
    seed, step, row = key_.unbind()
    rows = row + torch.arange(shape[0], device=key_.device)
    stream = _mix(_mix(_mix(seed ^ site) + step) + rows)
    counter = torch.arange(1, shape[1:].numel() + 1, device=key_.device) * _GAMMA
    bits = _mix(stream[:, None] + counter).view(shape)
    return (bits >> 40 & 0xFFFFFF).float() / 2**24


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


_GAMMA = _signed(0x9E3779B97F4A7C15)


def _mix(z: Tensor) -> Tensor:
    """The finalizer of splitmix64; shifts are logical, products wrap."""
    z = (z ^ _shift(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shift(z, 27)) * _signed(0x94D049BB133111EB)
    return z ^ _shift(z, 31)


def _shift(z: Tensor, bits: int) -> Tensor:
    return (z >> bits) & (2 ** (64 - bits) - 1)
