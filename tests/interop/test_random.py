"""Random configurations of every architecture, beside those that its own test names: forward, backward, out and in."""

import importlib
import random
from collections.abc import Callable
from typing import Any

import pytest

DRAWS = 4
GROUPED = {"num_key_value_heads": [1, 2, 4], "num_hidden_layers": [1, 2, 3], "tie_word_embeddings": [False, True]}
LONG = {"original_max_position_embeddings": 16}
ROPES = [
    {"rope_type": "default", "rope_theta": 1e4},
    {"rope_type": "default", "rope_theta": 5e5},
    {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0},
    {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, **LONG},
    {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **LONG},
]
WIDTHS = {"head_dim": [4, 8, 16], "intermediate_size": [24, 40]}
LLAMA_LIKE = {**GROUPED, **WIDTHS, "rope_parameters": ROPES, "rms_norm_eps": [1e-6, 1e-5]}
CHOICES: dict[str, tuple[str, dict[str, list[Any]]]] = {
    "llama": ("LlamaConfig", {**LLAMA_LIKE, "attention_bias": [False, True], "mlp_bias": [False, True]}),
    "mistral": ("MistralConfig", {**LLAMA_LIKE, "sliding_window": [None, 3, 9]}),
    "qwen2": ("Qwen2Config", {**GROUPED, "rope_parameters": ROPES, "intermediate_size": [24, 40]}),
    "qwen3": (  # normalised heads of 4 features round to 7e-6 of float64 by themselves, here and there
        "Qwen3Config",
        {**LLAMA_LIKE, "attention_bias": [False, True], "head_dim": [8, 16]},
    ),
    "gpt2": (
        "GPT2Config",
        {
            "n_head": [1, 2, 4],
            "n_layer": [1, 2, 3],
            "n_inner": [None, 24, 40],
            "tie_word_embeddings": [False, True],
            "activation_function": ["gelu_new", "gelu", "relu"],
        },
    ),
    "gpt_neox": (
        "GPTNeoXConfig",
        {
            "num_attention_heads": [2, 4],
            "use_parallel_residual": [False, True],
            "attention_bias": [False, True],
            "tie_word_embeddings": [False, True],
            "rope_parameters": [
                {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": share}
                for theta in (1e4, 2e5)
                for share in (0.25, 0.5, 1.0)
            ],
        },
    ),
    "gptj": (
        "GPTJConfig",
        {"n_head": [2, 4], "n_layer": [1, 2, 3], "rotary_dim": [2, 4, 8], "n_inner": [None, 24, 40]},
    ),
    "olmo2": ("Olmo2Config", {**GROUPED, "rope_parameters": ROPES, "attention_bias": [False, True]}),
    "gemma2": (
        "Gemma2Config",
        {**GROUPED, **WIDTHS, "query_pre_attn_scalar": [4, 8, 30], "final_logit_softcapping": [None, 3.0, 30.0]},
    ),
}


def drawn() -> list[Any]:
    cases: list[Any] = []
    for name, (config, choices) in CHOICES.items():
        sizes = importlib.import_module(f"tests.interop.test_{name}").SIZES
        chooser = random.Random(name)
        for draw in range(DRAWS):
            fields = {field: chooser.choice(values) for field, values in choices.items()}
            cases.append(pytest.param(config, sizes | fields, id=f"{name}-{draw}"))
    return cases


@pytest.mark.parametrize(("config", "fields"), drawn())
def test_it_computes_what_transformers_does_in_and_out(
    agrees: Callable[..., None], config: str, fields: dict[str, Any]
) -> None:
    agrees(config, **fields)
