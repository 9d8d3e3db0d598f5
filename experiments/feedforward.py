"""Feed-forward units at equal size.

Question    Does a gated feed-forward unit pay, and does ReLU² keep up with one?
Hypothesis  A gated one pays, by 0.01 to 0.06 nats over GELU (arXiv:2002.05202); ReLU² lies between (arXiv:2109.08668).
"""

from experiments.baselines import nano
from labkit import Experiment

experiment = Experiment(
    baseline=nano,
    variants={
        "gelu": {"model.feedforward": "gelu"},
        "geglu": {"model.feedforward": "geglu"},
        "relu2": {"model.feedforward": "relu2"},
    },
    seeds=4,
    metric="val/loss",
    match="params",
    placebo=True,
)
