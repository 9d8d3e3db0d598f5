"""Loss against speed: depth, width, key-value heads and the feed-forward unit.

Question    Which shapes of a model of some 10M parameters lie on the front of validation loss against tokens a second?
Hypothesis  Shallow and wide ones are the fast end, deep ones the good end, and fewer key-value heads are on it
            throughout.
Outcome     The fast end is as expected, the good end is not: all six trials on the front have three layers, from 384
            wide with four key-value heads and GELU, 4.10 nats at 5.8M tokens/s, to 256 wide with one, 4.27 to 4.33 at
            7.6M. Nine layers come to 4.27 at best: too few tokens for depth. 28 of 48 combinations were never tried.
            (labkit sweep sweeps/pareto.py --steps 300 --side-by-side 1: 2.5M tokens, 40 trials, seed 0, the sources of
            torch 2.11.0 and scipy 1.18.1, one H200, 2026-11-30.)
"""

from experiments.baselines import mini
from labkit import Sweep, integers, log_uniform

sweep = Sweep(
    base=mini.patched({"evaluation.beyond": []}),
    scientific={
        "model.n_layers": integers(3, 9, 2),
        "model.d_model": integers(256, 384, 64),
        "model.attention": [
            {"kind": "gqa", "head_dim": 64, "n_heads": 4, "n_kv_heads": 4},
            {"kind": "gqa", "head_dim": 64, "n_heads": 4, "n_kv_heads": 1},
        ],
        "model.feedforward": ["gelu", {"kind": "swiglu", "multiple_of": 64}],
    },
    nuisance={"optimizer.lr": log_uniform(5e-4, 8e-3)},
    trials=40,
    minimize="val/loss",
    maximize="perf/tokens_per_s",
)
