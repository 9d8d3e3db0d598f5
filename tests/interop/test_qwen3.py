"""Qwen 3 against transformers' own."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.conftest import SIZES as SIZES

UPPER = {"use_sliding_window": True, "sliding_window": 6, "num_hidden_layers": 3}
MODELS: dict[str, dict[str, Any]] = {
    "wide heads": {},
    "tied, with biases": {"tie_word_embeddings": True, "attention_bias": True, "head_dim": 8},
    "no multiple of the heads": {"hidden_size": 30, "head_dim": 8, "num_key_value_heads": 1},
    "upper layers see a window": {**UPPER, "max_window_layers": 1, "head_dim": 16},
    "another eps": {"rms_norm_eps": 1e-5, "head_dim": 6},
}


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_it_computes_what_transformers_does_in_and_out(agrees: Callable[..., None], fields: dict[str, Any]) -> None:
    agrees("Qwen3Config", **SIZES | fields)
