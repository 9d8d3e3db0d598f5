"""Norm, feed-forward and learning rate of a small model, for a CPU.

Question    Which norm and which feed-forward unit serve a model of 0.17M parameters, each at its learning rate?
Hypothesis  The learning rate matters more than both; SwiGLU and RMSNorm are at least as good as GELU and LayerNorm.
Outcome     The learning rate matters most, with 0.71 [0.48, 0.99] of what tells the better trials; the feed-forward
            unit has 0.23 [0.00, 0.38], the norm 0.06 [0.00, 0.16]. The best trial, LayerNorm and SwiGLU at 0.0091, is
            the best of 16 and not confirmed. (labkit sweep sweeps/quick.py: 16 trials, seed 0, Python 3.11's library,
            2 CPU cores, torch 2.13.0, 2026-11-30; shares by PED-ANOVA with 90 % bootstrap intervals.)
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
