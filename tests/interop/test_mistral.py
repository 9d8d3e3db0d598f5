"""Mistral against transformers' own."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.conftest import SIZES as SIZES

MODELS: dict[str, dict[str, Any]] = {
    "all before": {"sliding_window": None},
    "window": {"sliding_window": 5},
    "window of one, tied": {"sliding_window": 1, "tie_word_embeddings": True},
    "window beyond the text": {"sliding_window": 4096, "head_dim": 16},
    "no multiple of the heads": {"hidden_size": 30, "head_dim": 8, "sliding_window": 7},
}


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_it_computes_what_transformers_does_in_and_out(agrees: Callable[..., None], fields: dict[str, Any]) -> None:
    agrees("MistralConfig", **SIZES | fields)
