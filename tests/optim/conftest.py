"""Weights to step, one by one."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from labkit.components.parameters import Part, Role
from labkit.optim.weights import Weight

Made = Callable[..., Weight]


@pytest.fixture
def made() -> Made:
    """A weight of the given values; several roles share the rows of a packed one equally."""

    def make(value: Tensor, *roles: Role, name: str = "weight", compute: torch.dtype | None = None) -> Weight:
        rows = len(value) // len(roles)
        parts = tuple(Part(role, rows, value.shape[-1], role.value if len(roles) > 1 else "") for role in roles)
        value.grad = torch.zeros_like(value)
        return Weight(name, value, parts, compute or value.dtype)

    return make
