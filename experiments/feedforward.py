"""Feed-forward units at equal size.

Question    Does a gated feed-forward unit pay, and does ReLU² keep up with one?
Hypothesis  A gated one pays, by 0.01 to 0.06 nats over GELU (arXiv:2002.05202); ReLU² lies between (arXiv:2109.08668).
Outcome     Replicated for the gates: at equal size GELU loses 0.042 nats [0.022, 0.063] to SwiGLU, and GEGLU is level
            with it as far as four seeds can tell, -0.004 [-0.024, 0.016]. Contradicted for ReLU², which does not lie
            between but wins by 0.051 [0.030, 0.071]. (labkit run experiments/feedforward.py --baseline mini: 4 seeds,
            12M tokens of the sources of torch 2.11.0 and scipy 1.18.1, one H200, 2026-11-30; simultaneous 95 %
            intervals.)
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
