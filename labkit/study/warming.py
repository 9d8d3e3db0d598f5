"""`labkit warm`: an experiment's kernels, compiled before its runs want them."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labkit.report import formats
from labkit.study.counting import Counted
from labkit.train.device import select
from labkit.train.run import Runtime
from labkit.train.warming import warm


@dataclass(frozen=True)
class Warmed:
    """What was found, and what had to be done."""

    device: str
    variants: int
    kernels: int
    compiled: int
    seconds: float

    def __str__(self) -> str:
        if self.device == "cpu":
            return "nothing to warm: on a CPU torch's own operations run, and nothing is compiled"
        shared = f"{formats.plural(self.kernels, 'kernel')} for {formats.plural(self.variants, 'arm')}"
        return f"{shared}: {self.compiled} compiled in {self.seconds:.1f} s, {self.kernels - self.compiled} were there"

    def as_json(self) -> dict[str, Any]:
        return {"version": 1, **asdict(self)}


def warmed(arms: Sequence[Counted], runtime: Runtime, base: Path) -> Warmed:
    """Compile what the arms need, one run of each.

    Raises Mistake for a device or a tokenizer that is not there, or a micro-batch that does not divide an arm's batch.
    """
    for arm in arms:
        runtime.rows(arm.arm.spec.batch_size)
    device, start = select(runtime.device), time.perf_counter()
    if device.type == "cpu":
        return Warmed("cpu", len(arms), 0, 0, 0.0)
    specs = [arm.arm.spec for arm in arms]
    kiln = warm([(spec, spec.tokenizer.size(base)) for spec in specs], runtime)
    return Warmed(str(device), len(arms), kiln.count, kiln.compiled, time.perf_counter() - start)
