"""Llama against transformers' own."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.conftest import SIZES as SIZES

LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
ORIGINAL = "original_max_position_embeddings"
MODELS: dict[str, dict[str, Any]] = {
    "grouped": {},
    "all heads their own": {"num_key_value_heads": 4, "tie_word_embeddings": True},
    "one key": {"num_key_value_heads": 1, "attention_bias": True},
    "narrow heads": {"head_dim": 4, "mlp_bias": True, "attention_dropout": 0.1},
    "wide heads": {"head_dim": 16, "rms_norm_eps": 1e-5, "hidden_act": "gelu_pytorch_tanh"},
    "gelu": {"hidden_act": "gelu", "tie_word_embeddings": True},
    "linear": {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}},
    "llama 3": {"rope_parameters": {**LLAMA3, ORIGINAL: 16}},
    "llama 3 of its own length": {"rope_parameters": {**LLAMA3, ORIGINAL: 32}, "attention_bias": True},
    "yarn": {"rope_parameters": {**YARN, ORIGINAL: 16}},
    "yarn by mscale": {"rope_parameters": {**YARN, ORIGINAL: 8, "mscale": 0.7, "mscale_all_dim": 0.5}},
    "yarn with all said": {
        "rope_parameters": {**YARN, ORIGINAL: 16, "beta_fast": 4.0, "beta_slow": 0.5, "attention_factor": 1.3},
        "head_dim": 32,
    },
    "yarn between pairs": {"rope_parameters": {**YARN, ORIGINAL: 16, "truncate": False}, "head_dim": 32},
}


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_it_computes_what_transformers_does_in_and_out(agrees: Callable[..., None], fields: dict[str, Any]) -> None:
    agrees("LlamaConfig", **SIZES | fields)
