"""Small models with random values, at which every branch counts."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from labkit.components.parameters import Role, parts_of
from labkit.model import ModelSpec, Transformer

BASE = ModelSpec(
    d_model=32,
    n_layers=2,
    context=16,
    norm="rms",
    residual="pre",
    attention={"kind": "gqa", "n_heads": 4, "n_kv_heads": 2},
    feedforward="swiglu",
    position="rope",
    head="untied",
    init="scaled_residual",
)

Make = Callable[..., Transformer]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
