"""Small models with random values, at which every branch counts."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from labkit.components.parameters import Role, parts_of
from labkit.model import Transformer
from tests.specs import SMALL

BASE = SMALL.patched({"head": "untied"})

Make = Callable[..., Transformer]


@pytest.fixture
def make() -> Make:
    """A model of the base with changes, in fp64."""

    def made(changes: dict[str, Any] | None = None, vocab_size: int = 11) -> Transformer:
        model = Transformer(BASE.patched(changes or {}), vocab_size).double()
        generator = torch.Generator().manual_seed(3)
        for name, stored in model.named_parameters():
            is_gain = all(part.role is Role.GAIN for part in parts_of(name, stored))
            torch.nn.init.normal_(stored, mean=1.0 if is_gain else 0.0, std=0.25, generator=generator)
        return model.eval()

    return made
