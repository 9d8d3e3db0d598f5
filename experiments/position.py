"""How the model knows the order of tokens, within the training length and beyond it.

Question    Which position encoding learns best, and which holds at two and four times the training length?
Hypothesis  RoPE beats learned positions and none at the training length. ALiBi holds beyond it, sinusoidal positions
            do not (arXiv:2108.12409).
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
