"""Normalisation before attention and feed-forward.

Question    Is RMSNorm as good as LayerNorm, and can a pointwise tanh replace either?
Hypothesis  RMSNorm is level with LayerNorm or slightly better (arXiv:1910.07467); how dynamic tanh does depends on the
            size of the data (arXiv:2503.10622).
"""

from experiments.baselines import nano
from labkit import Experiment

experiment = Experiment(
    baseline=nano,
    variants={
        "layer": {"model.norm": "layer"},
        "dyt": {"model.norm": "dyt", "model.embedding.scaled": True},  # as in the paper: it does not scale by itself
    },
    seeds=4,
    metric="val/loss",
    match="params",
)
