"""Small specs that many tests start from."""

from typing import Any

from labkit.model import ModelSpec

SMALL = ModelSpec(
    d_model=32,
    n_layers=2,
    context=16,
    norm="rms",
    residual="pre",
    attention={"kind": "gqa", "n_heads": 4, "n_kv_heads": 2},
    feedforward="swiglu",
    position="rope",
    head="tied",
    init="scaled_residual",
)

TINY: dict[str, Any] = {
    "model": {
        "d_model": 16,
        "n_layers": 2,
        "context": 16,
        "norm": "rms",
        "residual": "pre",
        "attention": {"kind": "mha", "n_heads": 2},
        "feedforward": "swiglu",
        "position": "rope",
        "head": "tied",
        "init": "normal",
    },
    "data": {"corpus": {"kind": "text", "path": "text.txt"}, "validation": 0.1},
    "tokenizer": "byte",
    "optimizer": {"kind": "adamw", "lr": 0.01},
    "schedule": {"kind": "cosine", "warmup": 2},
    "budget": {"kind": "steps", "steps": 12},
    "batch_size": 4,
    "evaluation": {"points": 3, "windows": 6},
}
"""A run of a moment on a text beside it."""
