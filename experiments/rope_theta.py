"""RoPE base frequency at a short context.

Question    Does theta matter when the context is 256 tokens?
Hypothesis  No: the spread over theta stays inside the spread over seeds.
Outcome     It does, in small: against 10,000, theta 500,000 loses 0.042 nats [0.013, 0.072]; 1,000, at -0.020
            [-0.049, 0.010], and 100,000 are unresolved. (labkit run experiments/rope_theta.py: nano, 3 seeds,
            Python 3.11.7's library, 2 CPU cores, torch 2.13.0, 2026-11-30; simultaneous 95 % intervals.)
            At 10M parameters and 512 tokens it is the small theta that loses: 1,000 by 0.060 nats [0.040, 0.079], while
            100,000, at -0.010 [-0.030, 0.010], and 500,000, at 0.001 [-0.019, 0.021], are unresolved. (The same with
            --baseline mini --seeds 4: 12M tokens of the sources of torch 2.11.0 and scipy 1.18.1, one H200.)
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
