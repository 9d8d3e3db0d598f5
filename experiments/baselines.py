"""Baselines: run specs with every choice written out, to start experiments from.

nano trains on a laptop's CPU in under a minute and mini on a GPU in minutes. tiny, small, medium, large and 1B are
Llama-style models of the usual sizes, with budgets of 20 tokens per parameter (arXiv:2203.15556): give them a corpus
of your own, for instance ``--set data.corpus='{"kind": "hf", "path": "HuggingFaceFW/fineweb-edu"}'``.
"""

from labkit import ModelSpec, RunSpec

TEXT = {"corpus": "stdlib", "validation": 0.02}
MORE_TEXT = {"corpus": {"kind": "packages", "names": ("torch", "scipy")}, "validation": 0.05}

nano = RunSpec(
    model=ModelSpec(
        d_model=64,
        n_layers=3,
        context=256,
        norm="rms",
        residual="pre",
        attention={"kind": "mha", "n_heads": 4},
        feedforward={"kind": "swiglu", "multiple_of": 8},
        position={"kind": "rope", "theta": 10_000},
        head="tied",
        init={"kind": "scaled_residual", "std": 0.06},
    ),
    data=TEXT,
    tokenizer="byte",
    optimizer={"kind": "adamw", "lr": 6e-3, "betas": (0.9, 0.95), "weight_decay": 0.1},
    schedule={"kind": "linear", "warmup": 0.05, "final": 0.0},
    budget={"kind": "steps", "steps": 1200},
    batch_size=2,
    precision="fp32",
    evaluation={"points": 10, "windows": 64, "beyond": (2, 4)},
)

mini = RunSpec(
    model=ModelSpec(
        d_model=320,
        n_layers=6,
        context=512,
        norm="rms",
        residual="pre",
        attention={"kind": "mha", "n_heads": 5},
        feedforward={"kind": "swiglu", "multiple_of": 64},
        position={"kind": "rope", "theta": 10_000},
        head="tied",
        init="scaled_residual",
    ),
    data=MORE_TEXT,
    tokenizer={"kind": "bpe", "vocab_size": 8192},
    optimizer={"kind": "adamw", "lr": 2e-3, "betas": (0.9, 0.95), "weight_decay": 0.1},
    schedule={"kind": "cosine", "warmup": 0.1, "final": 0.1},
    budget={"kind": "tokens", "tokens": 12_000_000},
    batch_size=16,
    precision="bf16",
)


def llama(
    *,
    d_model: int,
    n_layers: int,
    n_heads: int,
    n_kv_heads: int,
    context: int,
    lr: float,
    tokens: int,
    d_ff: int | None = None,
) -> RunSpec:
    """A Llama-style run: RMSNorm, pre-norm, grouped-query attention, SwiGLU, interleaved RoPE, tied head."""
    return RunSpec(
        model=ModelSpec(
            d_model=d_model,
            n_layers=n_layers,
            context=context,
            norm={"kind": "rms", "eps": 1e-6},
            residual="pre",
            attention={"kind": "gqa", "n_heads": n_heads, "n_kv_heads": n_kv_heads},
            feedforward={"kind": "swiglu", "d_ff": d_ff, "multiplier": 8 / 3, "multiple_of": 256},
            position={"kind": "rope", "theta": 500_000, "layout": "interleaved"},
            head="tied",
            init={"kind": "scaled_residual", "std": 0.02},
        ),
        data=TEXT,
        tokenizer={"kind": "bpe", "vocab_size": 32_000},
        optimizer={"kind": "adamw", "lr": lr, "betas": (0.9, 0.95), "weight_decay": 0.1},
        schedule={"kind": "cosine", "warmup": 0.02, "final": 0.1},
        budget={"kind": "tokens", "tokens": tokens},
        batch_size=32_768 // context,
        precision="bf16",
    )


tiny = llama(d_model=256, n_layers=6, n_heads=8, n_kv_heads=4, context=1024, lr=1e-3, tokens=258_000_000)
small = llama(d_model=768, n_layers=12, n_heads=12, n_kv_heads=4, context=2048, lr=6e-4, tokens=2_000_000_000)
medium = llama(d_model=1024, n_layers=16, n_heads=16, n_kv_heads=4, context=2048, lr=4e-4, tokens=4_260_000_000)
large = llama(d_model=1536, n_layers=20, n_heads=24, n_kv_heads=8, context=2048, lr=3e-4, tokens=11_050_000_000)
globals()["1B"] = llama(  # no identifier, but the name that everybody knows
    d_model=2048, n_layers=16, n_heads=32, n_kv_heads=8, d_ff=8192, context=2048, lr=2e-4, tokens=20_800_000_000
)
