"""What a run's kernels are, found by going through its step and its evaluation once without launching any."""

from collections.abc import Iterable

import torch

from labkit.kernels.warm import Kiln, compiling, only_compiled
from labkit.optim.weights import Weights
from labkit.train.device import settings
from labkit.train.execution import Eager, Made, Part
from labkit.train.loop import build
from labkit.train.run import RunSpec, Runtime
from labkit.train.score import SteadyScorer
from labkit.train.step import Step


class Gathering(Eager):
    """Goes through the parts without running a kernel."""

    def made(self, *parts: Part) -> Made:
        with only_compiled(), torch.autograd.set_multithreading_enabled(False):
            for part in parts:
                part()
        return super().made(*parts)


def warm(runs: Iterable[tuple[RunSpec, int]], runtime: Runtime) -> Kiln:
    """Compile what runs of these specs and vocabularies launch on a GPU into Triton's cache, several kernels at once.

    Raises Mistake for a runtime that does not fit a spec or the machine.
    """
    with settings(runtime) as device, compiling() as kiln:
        for spec, vocab_size in runs:
            gather(spec, vocab_size, runtime, device)
            torch.cuda.empty_cache()
    return kiln


def gather(spec: RunSpec, vocab_size: int, runtime: Runtime, device: torch.device) -> None:
    """Ask for the kernels of one run."""
    rows = runtime.rows(spec.batch_size)
    model = build(spec, vocab_size, device)
    model.checkpointing = runtime.activation_checkpointing
    weights = Weights(model, spec.precision)
    step = Step(
        model,
        weights,
        spec.optimizer.build(weights),
        factors=[0.0],
        clip=spec.clip,
        batch_size=spec.batch_size,
        length=spec.model.context,
        rows=rows,
        dropout_seed=spec.seed.dropout,
        execution=Gathering(),
    )
    step.prepare()
    often = min(rows, spec.evaluation.windows)
    model.eval()
    with torch.no_grad():
        _ = SteadyScorer(model, device, spec.model.context, often, Gathering()).made
