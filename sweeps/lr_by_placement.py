"""Pre-, post- and peri-norm, each at its own learning rate and warm-up.

Question    Is there a difference between the placements of the norm when each is trained at its best?
Hypothesis  Post-norm wants a smaller learning rate and a longer warm-up, and then loses by less than 0.02 nats;
            peri-norm ties with pre-norm.
"""

from experiments.baselines import mini
from labkit import Sweep, log_uniform, uniform

sweep = Sweep(
    base=mini.patched({"evaluation.beyond": []}),
    scientific={"model.residual": ["pre", "post", "peri"]},
    nuisance={"optimizer.lr": log_uniform(3e-4, 1e-2), "schedule.warmup": uniform(0.0, 0.4)},
    trials=12,
    minimize="val/loss",
    mode="compare",
    seeds=3,
)
