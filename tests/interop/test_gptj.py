"""GPT-J against transformers' own."""

from collections.abc import Callable
from typing import Any

import pytest

SIZES = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "initializer_range": 0.1}
MODELS: dict[str, dict[str, Any]] = {
    "half turns": {"rotary_dim": 4},
    "all turns": {"rotary_dim": 8, "n_inner": 40, "attn_pdrop": 0.1},
    "a pair turns": {"rotary_dim": 2, "activation_function": "relu", "layer_norm_epsilon": 1e-6},
    "six of ten turn": {"n_embd": 30, "n_head": 3, "rotary_dim": 6},
}


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_it_computes_what_transformers_does_in_and_out(agrees: Callable[..., None], fields: dict[str, Any]) -> None:
    agrees("GPTJConfig", **SIZES | fields)
