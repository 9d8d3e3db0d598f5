"""GPT-NeoX against transformers' own."""

from collections.abc import Callable
from typing import Any

import pytest

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
    "initializer_range": 0.1,
}
MODELS: dict[str, dict[str, Any]] = {
    "a quarter turns": {},
    "half turns, tied": {
        "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5},
        "tie_word_embeddings": True,
    },
    "all turns, no biases": {
        "rope_parameters": {"rope_theta": 5e3, "partial_rotary_factor": 1.0},
        "attention_bias": False,
    },
    "one after the other": {"use_parallel_residual": False, "hidden_act": "gelu_new", "hidden_dropout": 0.1},
    "linear": {
        "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0, "partial_rotary_factor": 0.5}
    },
}


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_it_computes_what_transformers_does_in_and_out(agrees: Callable[..., None], fields: dict[str, Any]) -> None:
    agrees("GPTNeoXConfig", **SIZES | fields)
