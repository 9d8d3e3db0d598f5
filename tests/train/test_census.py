"""Which kernels a captured step runs: products, attention and labkit's own, and no copy of any size."""

import re
from collections import Counter

import pytest
import torch

from labkit.model import ModelSpec, Transformer
from labkit.optim.optimizer import Adamw
from labkit.optim.weights import Weights
from labkit.train.captured import Captured
from labkit.train.device import settings
from labkit.train.run import Runtime
from labkit.train.step import Step

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

STRAY = re.compile(r"copy|Copy|cat|Cat|elementwise|Memcpy|Memset|FillFunctor|index")
"""What moves or changes elements for no reason of the model's own, in torch's names."""
LAYERS, BATCH, CONTEXT, VOCAB = 12, 32, 1024, 50_304


def test_no_copy_takes_a_hundredth_of_the_step_of_124m() -> None:
    with settings(Runtime(device="cuda")) as device:
        step, batches = made(device), torch.randint(VOCAB, (4, BATCH, CONTEXT + 1))
        assert step.made.how == "captured"
        for number in range(4):
            step(number, batches[number])
        list(step.readings(0))
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profile:
            for number in range(4, 8):
                step(number, batches[number % 4])
            list(step.readings(0))
    times = Counter({event.key: event.self_device_time_total for event in profile.key_averages()})
    total = sum(times.values())
    strays = {name: time / total for name, time in times.items() if STRAY.search(name)}
    assert max(strays.values()) < 0.01, strays
    assert sum(strays.values()) < 0.02, strays


def made(device: torch.device) -> Step:
    spec = ModelSpec.from_json(
        {
            "d_model": 768,
            "n_layers": LAYERS,
            "context": CONTEXT,
            "norm": "rms",
            "residual": "pre",
            "attention": {"kind": "mha", "n_heads": 12},
            "feedforward": {"kind": "swiglu", "d_ff": 2048},
            "position": {"kind": "rope", "layout": "interleaved"},
            "head": "tied",
            "init": "scaled_residual",
        }
    )
    with device:
        model = Transformer(spec, VOCAB)
    model.initialize(0)
    weights = Weights(model, "bf16")
    step = Step(
        model,
        weights,
        Adamw().build(weights),
        factors=[1.0] * 8,
        clip=1.0,
        batch_size=BATCH,
        length=CONTEXT,
        rows=BATCH,
        dropout_seed=0,
        execution=Captured(),
    )
    step.prepare()
    return step
