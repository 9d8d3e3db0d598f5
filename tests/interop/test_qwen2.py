"""Qwen 2 against transformers' own."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.conftest import SIZES as SIZES

UPPER = {"use_sliding_window": True, "sliding_window": 6, "num_hidden_layers": 3}
MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tied": {"tie_word_embeddings": True, "num_key_value_heads": 4},
    "upper layers see a window": {**UPPER, "max_window_layers": 1},
    "all layers see a window": {**UPPER, "max_window_layers": 0},
    "none does": {**UPPER, "max_window_layers": 3},
    "every other": {**UPPER, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "yarn": {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0}},
}


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_it_computes_what_transformers_does_in_and_out(agrees: Callable[..., None], fields: dict[str, Any]) -> None:
    agrees("Qwen2Config", **SIZES | fields)
