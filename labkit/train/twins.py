"""The same run by labkit's kernels and by their references: how far its losses part, beside what a seed changes."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np
import torch
from numpy.typing import NDArray

from labkit.data import Batches, Store
from labkit.kernels import Kernels
from labkit.optim.weights import Weights
from labkit.train.device import settings
from labkit.train.loop import build, execution_of
from labkit.train.run import RunSpec, Runtime
from labkit.train.step import Step


@dataclass(frozen=True)
class Effort:
    """How a run is trained for the check."""

    steps: int
    seeds: int
    """Of initial values: 0, 1, …; all see the same data."""
    device: str


@dataclass(frozen=True)
class Twins:
    """What training by one and by the other comes to; losses are in nats, and those of a step."""

    kernels: float
    """The mean loss over the last tenth of the steps."""
    references: float
    difference: float
    """Mean |by kernels - by references| over steps and seeds."""
    spread: float
    """Mean |one seed - another|, by references, over steps and pairs of seeds."""

    @property
    def agree(self) -> bool:
        """Whether the kernels change less than a seed does; not where a loss is not finite."""
        return self.difference < self.spread


def twins(spec: RunSpec, store: Store, effort: Effort, done: Callable[[], None] = lambda: None) -> Twins:
    """Train a run over a few seeds by each; `done` is told of every model that was trained."""
    curves: dict[Kernels, list[NDArray[np.float64]]] = {"triton": [], "torch": []}
    for seed in range(effort.seeds):
        for kernels, found in curves.items():
            found.append(losses(spec.patched({"seed.init": seed}), store, effort, kernels))
            done()
    ours, theirs = curves["triton"], curves["torch"]
    tail = -max(1, effort.steps // 10)
    return Twins(
        fmean(curve[tail:].mean() for curve in ours),
        fmean(curve[tail:].mean() for curve in theirs),
        fmean(np.abs(one - other).mean() for one, other in zip(ours, theirs, strict=True)),
        fmean(np.abs(one - other).mean() for one, other in combinations(theirs, 2)),
    )


def losses(spec: RunSpec, store: Store, effort: Effort, kernels: Kernels) -> NDArray[np.float64]:
    """The loss of every step of a run."""
    runtime = Runtime(device=effort.device, kernels=kernels)
    with settings(runtime) as device:
        model = build(spec, store.size, device)
        weights = Weights(model, spec.precision)
        step = Step(
            model,
            weights,
            spec.optimizer.build(weights),
            factors=[spec.schedule.factor(number, effort.steps) for number in range(effort.steps)],
            clip=spec.clip,
            batch_size=spec.batch_size,
            length=spec.model.context,
            rows=spec.batch_size,
            dropout_seed=spec.seed.dropout,
            execution=execution_of(runtime, device),
        )
        step.prepare()
        batches = Batches(store.train, spec.model.context, spec.batch_size, spec.seed.data)
        found: list[float] = []
        for number in range(effort.steps):
            step(number, torch.from_numpy(batches.train(number)))
            found += [reading.loss for reading in step.readings()]
        found += [reading.loss for reading in step.readings(lag=0)]
        return np.array(found)
