"""Gemma 2 against transformers' own."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.conftest import SIZES as LLAMA

SIZES = {**LLAMA, "pad_token_id": None, "head_dim": 8, "sliding_window": 6}
MODELS: dict[str, dict[str, Any]] = {
    "every other layer sees a window": {"num_hidden_layers": 4},
    "untied, scaled by another number": {"tie_word_embeddings": False, "query_pre_attn_scalar": 7},
    "strong caps": {"final_logit_softcapping": 2.0, "attn_logit_softcapping": 1.5, "attention_bias": True},
    "no caps": {"final_logit_softcapping": None, "attn_logit_softcapping": None, "head_dim": 12},
    "no window": {"layer_types": ["full_attention"] * 2},
    "windows only": {"layer_types": ["sliding_attention"] * 2, "query_pre_attn_scalar": 8},
}


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_it_computes_what_transformers_does_in_and_out(agrees: Callable[..., None], fields: dict[str, Any]) -> None:
    agrees("Gemma2Config", **SIZES | fields)
