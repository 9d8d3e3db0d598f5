"""What a model goes on with, with a cache and without, is what transformers' goes on with."""

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch

from labkit.generate import Sampling, generate
from labkit.interop import load
from tests.interop.conftest import VOCAB, saved

NEW, NEVER = 64, -1
GREEDY = Sampling(tokens=NEW, temperature=0)
PROMPTS_BT = torch.randint(0, VOCAB, (2, 9), generator=torch.Generator().manual_seed(5))
LONG = {"max_position_embeddings": 96}
CONFIGS = {
    "llama": ("LlamaConfig", LONG),
    "mistral": ("MistralConfig", LONG),
    "qwen2": ("Qwen2Config", LONG),
    "qwen3": ("Qwen3Config", LONG),
    "gpt2": ("GPT2Config", {"n_positions": 96}),
    "gpt_neox": ("GPTNeoXConfig", LONG),
    "gptj": ("GPTJConfig", {"n_positions": 96}),
    "olmo2": ("Olmo2Config", LONG),
    "gemma2": ("Gemma2Config", LONG),
}


def models() -> list[Any]:
    """Every configuration that the architectures' own tests hold forward and backward."""
    return [
        pytest.param(config, module.SIZES | fields | long, id=f"{name}-{case}")
        for name, (config, long) in CONFIGS.items()
        for module in [importlib.import_module(f"tests.interop.test_{name}")]
        for case, fields in module.MODELS.items()
    ]


@pytest.mark.parametrize(("config", "fields"), models())
def test_greedy_generation_gives_the_same_64_tokens_with_and_without_a_cache(
    transformers: Any, tmp_path: Path, config: str, fields: dict[str, Any]
) -> None:
    theirs = saved(transformers, config, fields, tmp_path)
    _, ours = load(tmp_path)
    with_cache, without = (
        generate(ours, PROMPTS_BT.tolist(), GREEDY, end=NEVER, cached=cached) for cached in (True, False)
    )
    assert with_cache == without
    tokens_BT = torch.tensor([each.tokens for each in with_cache])
    assert tokens_BT.shape == (2, NEW)
    assert next_ones(theirs, torch.cat([PROMPTS_BT, tokens_BT], dim=1)).equal(tokens_BT)


def next_ones(model: Any, tokens_BT: torch.Tensor) -> torch.Tensor:
    """Which token it would take next after the prompt and each of those that follow: all 64 steps in one pass.

    Tokens that are what it takes next, each after those before it, are its greedy text.
    """
    with torch.no_grad():
        return model(tokens_BT).logits[:, PROMPTS_BT.shape[1] - 1 : -1].argmax(dim=-1)
