"""What of a head RoPE turns, and which features make a pair.

Question    Does it matter whether RoPE pairs neighbours or halves, and whether it turns all features of a head?
Hypothesis  The pairing does not: it permutes the features of a head. A quarter of the features is enough.
Outcome     Not resolvable here, as expected of what does not matter: interleaved pairs differ by 0.010 nats
            [-0.011, 0.030], a quarter of the features by -0.007 [-0.027, 0.014]. (labkit run
            experiments/rope_layout.py --baseline mini: 4 seeds, 12M tokens of the sources of torch 2.11.0 and scipy
            1.18.1, one H200, 2026-11-30; simultaneous 95 % intervals.)
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
