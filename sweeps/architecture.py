"""Six choices of architecture at once, with the learning rate, in a model of 10M parameters.

Question    Of norm, placement, attention, feed-forward unit, position and QK-norm: which matter, and which
            combination is best at its own learning rate?
Hypothesis  Position and placement matter most and the kind of norm least; the best has RoPE, SwiGLU, QK-norm and a
            pre- or peri-norm, and gains less than 0.05 nats on the base.
Outcome     Position and placement: the best trials with RoPE, learned positions and none are at 4.04, 4.70 and 4.84
            nats; with pre-, peri- and post-norm at 4.04, 4.43 and 6.54; with ReLU², GELU and SwiGLU at 4.04, 4.28 and
            4.33. Norm, kind of attention and QK-norm are worth 0.05 to 0.07. The best is LayerNorm, pre-norm, MHA with
            QK-norm, ReLU² and RoPE with theta 1,730 at a learning rate of 0.0016; it is 0.57 better than the base, far
            more than expected, and not confirmed on other seeds. Of what tells the better trials the learning rate has
            0.43 [0.20, 0.76] and theta 0.35 [0.13, 0.59]: the rest was settled early, or pruned. (labkit sweep
            sweeps/architecture.py --steps 300 -j 4: 2.5M tokens, 100 trials, 44 of them pruned, seed 0, the sources of
            torch 2.11.0 and scipy 1.18.1, one H200, 2026-11-30; shares by PED-ANOVA with 90 % bootstrap intervals.)
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
