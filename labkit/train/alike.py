"""Whether processes hold the same tensors: a short text for all of them, of which every bit counts, and its place."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

AT_ONCE = 1 << 20
"""Elements that are looked at together."""

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}
"""What an element of so many bytes is looked at as."""

FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)
"""Odd, and large: a difference in one place is hardly made up for by another's (Knuth, TAOCP 3, 6.4)."""


def digest(tensors: Mapping[str, Tensor]) -> str:
    """The text of tensors by name; waits for the device once, which does the sums, modulo 2^64.

    It is for differences by accident, not by intent.
    """
    parts = [_sum(tensor) for tensor in tensors.values()]
    sums = torch.stack(parts).tolist() if parts else []
    shapes = [(name, str(tensor.dtype), *tensor.shape) for name, tensor in tensors.items()]
    return hashlib.blake2b(repr([shapes, sums]).encode(), digest_size=8).hexdigest()


@torch.no_grad()
def _sum(tensor: Tensor) -> Tensor:
    """Σ place · element in each chunk, and those of all chunks with powers of a factor."""
    bits_M = tensor.detach().resolve_conj().contiguous().flatten().view(BITS[tensor.element_size()])
    places_C = torch.arange(1, min(AT_ONCE, len(bits_M)) + 1, device=tensor.device) * FACTOR
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for bits_C in bits_M.split(AT_ONCE):
        total = total * FACTOR + (bits_C * places_C[: len(bits_C)]).sum()
    return total
