"""How the model knows the order of tokens, within the training length and beyond it.

Question    Which position encoding learns best, and which holds at two and four times the training length?
Hypothesis  RoPE beats learned positions and none at the training length. ALiBi holds beyond it, sinusoidal positions
            do not (arXiv:2108.12409).
Outcome     Replicated, RoPE first: ALiBi loses 0.035 nats [0.004, 0.067] to it, learned positions 0.61 [0.57, 0.64],
            sinusoidal ones 0.63 [0.60, 0.66], none 0.73 [0.69, 0.76]. On the same tokens, read with one, two and four
            times the training length before them, ALiBi goes from 2.76 to 2.70 and 2.67, sinusoidal positions from
            3.32 to 4.20 and 4.72, RoPE from 2.73 to 3.17 and 3.77, none from 3.41 to 3.48 and 3.77. (labkit run
            experiments/position.py --baseline mini: 4 seeds, 12M tokens of the sources of torch 2.11.0 and scipy
            1.18.1, one H200, 2026-11-30; simultaneous 95 % intervals.)
"""

from experiments.baselines import nano
from labkit import Experiment

experiment = Experiment(
    baseline=nano,
    variants={
        "learned": {"model.position": "learned"},
        "sinusoidal": {"model.position": "sinusoidal", "model.embedding.scaled": True},
        "alibi": {"model.position": "alibi"},
        "none": {"model.position": "none"},
    },
    seeds=4,
    metric="val/loss",
    match="non_embedding",
)
