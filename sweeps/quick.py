"""Norm, feed-forward and learning rate of a small model, for a CPU.

Question    Which norm and which feed-forward unit serve a model of 0.17M parameters, each at its learning rate?
Hypothesis  The learning rate matters more than both; SwiGLU and RMSNorm are at least as good as GELU and LayerNorm.
"""

from experiments.baselines import nano
from labkit import Sweep, log_uniform

sweep = Sweep(
    base=nano.patched({"budget.steps": 150, "evaluation.points": 6, "evaluation.beyond": []}),
    scientific={"model.norm": ["rms", "layer"], "model.feedforward": ["gelu", {"kind": "swiglu", "multiple_of": 8}]},
    nuisance={"optimizer.lr": log_uniform(5e-4, 5e-2)},
    trials=16,
    minimize="val/loss",
    pruner={"kind": "median", "startup": 4},
    match="params",
    tolerance=0.02,
)
