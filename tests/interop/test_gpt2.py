"""GPT-2 against transformers' own."""

from collections.abc import Callable
from typing import Any

import pytest

SIZES = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "initializer_range": 0.1}
MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "untied": {"tie_word_embeddings": False, "n_inner": 40},
    "unscaled": {"scale_attn_weights": False, "activation_function": "relu", "resid_pdrop": 0.0},
    "one layer": {"n_layer": 1, "activation_function": "gelu", "layer_norm_epsilon": 1e-6, "n_head": 2},
}


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_it_computes_what_transformers_does_in_and_out(agrees: Callable[..., None], fields: dict[str, Any]) -> None:
    agrees("GPT2Config", **SIZES | fields)
