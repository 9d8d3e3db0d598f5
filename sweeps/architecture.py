"""Six choices of architecture at once, with the learning rate, in a model of 10M parameters.

Question    Of norm, placement, attention, feed-forward unit, position and QK-norm: which matter, and which
            combination is best at its own learning rate?
Hypothesis  Position and placement matter most and the kind of norm least; the best has RoPE, SwiGLU, QK-norm and a
            pre- or peri-norm, and gains less than 0.05 nats on the base.
"""

from experiments.baselines import mini
from labkit import Sweep, choice, log_uniform

sweep = Sweep(
    base=mini.patched({"evaluation.beyond": []}),
    scientific={
        "model.norm": ["rms", "layer"],
        "model.residual": ["pre", "post", "peri"],
        "model.attention": [
            {"kind": "mha", "n_heads": 5, "qk_norm": choice(["none", "rms"])},
            {"kind": "gqa", "n_heads": 5, "n_kv_heads": 1, "qk_norm": choice(["none", "rms"])},
        ],
        "model.feedforward": ["gelu", "relu2", {"kind": "swiglu", "multiple_of": 64}],
        "model.position": ["none", "learned", {"kind": "rope", "theta": log_uniform(1e3, 1e6)}],
    },
    nuisance={"optimizer.lr": log_uniform(3e-4, 1e-2)},
    trials=100,
    minimize="val/loss",
    pruner={"kind": "median", "startup": 10},
    match="params",
    tolerance=0.02,
)
