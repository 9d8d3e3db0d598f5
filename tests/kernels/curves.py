"""Every kernelled component beside its reference, in small.

Question    Do losses by labkit's kernels part from those by torch's operations less than those of two seeds do?
Hypothesis  Yes, for every component.

    labkit check kernels tests/kernels/curves.py
"""

from labkit import Experiment, ModelSpec, RunSpec

baseline = RunSpec(
    model=ModelSpec(
        d_model=128,
        n_layers=2,
        context=256,
        norm="rms",
        residual="pre",
        attention={"kind": "gqa", "n_heads": 4, "n_kv_heads": 2},
        feedforward={"kind": "swiglu", "multiple_of": 64},
        position="rope",
        head="tied",
        init="scaled_residual",
    ),
    data={"corpus": "stdlib", "validation": 0.02},
    tokenizer="byte",
    optimizer={"kind": "adamw", "lr": 1e-3},
    schedule={"kind": "cosine", "warmup": 0.1, "final": 0.1},
    budget={"kind": "steps", "steps": 500},
    batch_size=16,
    precision="bf16",
)

experiment = Experiment(
    baseline=baseline,
    variants={
        "rms-gemma": {"model.norm.casting": "gemma"},
        "rms-without-gain": {"model.norm.gain": False},
        "layer-norm": {"model.norm": "layer"},
        "post": {"model.residual": "post"},
        "peri": {"model.residual": "peri"},
        "reordered": {"model.residual": "reordered"},
        "parallel": {"model.residual": "parallel"},
        "geglu": {"model.feedforward": "geglu"},
        "reglu": {"model.feedforward": "reglu"},
        "glu": {"model.feedforward": "glu"},
        "gelu": {"model.feedforward": "gelu"},
        "gelu-tanh": {"model.feedforward": {"kind": "gelu", "approximate": "tanh"}},
        "relu2": {"model.feedforward": "relu2"},
        "mha": {"model.attention": {"kind": "mha", "n_heads": 4}},
        "rope-interleaved": {"model.position.layout": "interleaved"},
        "rope-half-of-a-head": {"model.position.fraction": 0.5},
        "window": {"model.attention.window": 64},
        "softcap": {"model.attention.softcap": 20.0},
        "sinks": {"model.attention.sinks": True},
        "alibi": {"model.position": "alibi"},
        "qk-norm": {"model.attention.qk_norm": "rms"},
        "qk-norm-after": {"model.attention.qk_norm": "rms", "model.attention.qk_norm_place": "after_position"},
        "gate": {"model.attention.gate": "head"},
        "mla": {"model.attention": {"kind": "mla", "n_heads": 4}},
        "differential": {"model.attention": {"kind": "differential", "n_heads": 2}},
        "z-loss": {"model.loss.z": 1e-4},
        "smoothing": {"model.loss.label_smoothing": 0.1},
        "logit-softcap": {"model.head.softcap": 15.0},
        "untied": {"model.head": {"kind": "untied", "bias": True}},
        "muon": {"optimizer": {"kind": "muon", "lr": 0.01, "adamw": {"lr": 3e-3}}},
    },
    seeds=2,
    metric="val/loss",
    match="none",
)
