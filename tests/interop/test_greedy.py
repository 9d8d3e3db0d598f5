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
    wanted = theirs.generate(
        PROMPTS_BT,
        attention_mask=torch.ones_like(PROMPTS_BT),
        do_sample=False,
        max_new_tokens=NEW,
        eos_token_id=None,
        pad_token_id=0,
        use_cache=fields.get("sliding_window")
        != 1,  # transformers' cache keeps everything where it should keep nothing
    )[:, PROMPTS_BT.shape[1] :].tolist()
    _, ours = load(tmp_path)
    for cached in (True, False):
        found = generate(ours, PROMPTS_BT.tolist(), GREEDY, end=NEVER, cached=cached)
        assert [list(each.tokens) for each in found] == wanted
