"""RoPE base frequency at a short context.

Question    Does theta matter when the context is 256 tokens?
Hypothesis  No: the spread over theta stays inside the spread over seeds.
"""

from experiments.baselines import nano
from labkit import Experiment, vary

experiment = Experiment(
    baseline=nano,
    variants=vary("model.position.theta", [1e3, 1e5, 5e5]),
    seeds=3,
    metric="val/loss",
    match="params",
)
