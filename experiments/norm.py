"""Normalisation before attention and feed-forward.

Question    Is RMSNorm as good as LayerNorm, and can a pointwise tanh replace either?
Hypothesis  RMSNorm is level with LayerNorm or slightly better (arXiv:1910.07467); how dynamic tanh does depends on the
            size of the data (arXiv:2503.10622).
Outcome     RMSNorm against LayerNorm is not resolvable here: LayerNorm is at -0.001 nats [-0.153, 0.150]. DyT loses, by
            0.44 [0.27, 0.61]. (labkit run experiments/norm.py: nano, 4 seeds, Python 3.11.7's library, 2 CPU cores,
            torch 2.13.0, 2026-11-30; simultaneous 95 % intervals.) With 10M parameters LayerNorm, at -0.004
            [-0.041, 0.033], is not resolvable either, and DyT does not train at the norms' learning rate: 5.98 to 6.65
            nats against 2.63, unstable and without a verdict. (The same with --baseline mini: 12M tokens of the sources
            of torch 2.11.0 and scipy 1.18.1, one H200.)
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
