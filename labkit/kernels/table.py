"""Where tensors lie that one launch goes through: a row of addresses for each piece of them."""

from collections.abc import Sequence

import torch
from torch import Tensor


def pieces(tensors: Sequence[Tensor | None], elements: int, *numbers: int) -> Tensor:
    """(address of each tensor or 0, …, count, numbers …) for every piece that a program takes of tensors of one shape.

    A full piece is moved 16 bytes at a time; where a tensor does not lie so, pieces are half as long and so not full.
    """
    given = [tensor for tensor in tensors if tensor is not None]
    piece = elements if all(tensor.data_ptr() % 16 == 0 for tensor in given) else elements // 2
    count = given[0].numel()
    first = torch.arange(0, count, piece)
    addresses = [
        torch.zeros_like(first) if tensor is None else tensor.data_ptr() + first * tensor.element_size()
        for tensor in tensors
    ]
    rest = [torch.full_like(first, number) for number in numbers]
    return torch.stack([*addresses, (count - first).clamp(max=piece), *rest], dim=1)
