"""What of a head RoPE turns, and which features make a pair.

Question    Does it matter whether RoPE pairs neighbours or halves, and whether it turns all features of a head?
Hypothesis  The pairing does not: it permutes the features of a head. A quarter of the features is enough.
"""

from experiments.baselines import nano
from labkit import Experiment

experiment = Experiment(
    baseline=nano,
    variants={
        "interleaved": {"model.position.layout": "interleaved"},
        "quarter": {"model.position.fraction": 0.25},
    },
    seeds=4,
    metric="val/loss",
    match="params",
)
