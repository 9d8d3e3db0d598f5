"""Pre-, post- and peri-norm, each at its own learning rate and warm-up.

Question    Is there a difference between the placements of the norm when each is trained at its best?
Hypothesis  Post-norm wants a smaller learning rate and a longer warm-up, and then loses by less than 0.02 nats;
            peri-norm ties with pre-norm.
Outcome     Contradicted in runs this short: each at its best and on three other seeds, peri-norm loses 0.25 nats
            [0.11, 0.39] to pre-norm. Post-norm wants the smaller learning rate indeed, 0.0005 against 0.0036, and
            learned nothing at 0.0011 and above; at its best its seeds end at 4.73, 4.76 and 6.46, which is too
            unsteady for a verdict on three. (labkit sweep sweeps/lr_by_placement.py --steps 500 -j 4: 4.1M tokens, 12
            trials of each, the sources of torch 2.11.0 and scipy 1.18.1, one H200, 2026-11-30; simultaneous 95 %
            intervals.)
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
