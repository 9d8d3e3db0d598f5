"""OLMo 2 against transformers' own."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.conftest import SIZES as LLAMA

SIZES = {**LLAMA, "pad_token_id": None}
MODELS: dict[str, dict[str, Any]] = {
    "grouped": {},
    "all heads their own, tied": {"num_key_value_heads": 4, "tie_word_embeddings": True},
    "one key": {"num_key_value_heads": 1, "attention_bias": True, "rms_norm_eps": 1e-6},
}


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_it_computes_what_transformers_does_in_and_out(agrees: Callable[..., None], fields: dict[str, Any]) -> None:
    agrees("Olmo2Config", **SIZES | fields)
