"""Whether the variants of an experiment train by labkit's kernels as they do by the references."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from labkit.data import prepare
from labkit.faults import closest
from labkit.kernels import on_device, using
from labkit.spec import Mistake
from labkit.study.experiment import Arm
from labkit.study.loading import Loaded
from labkit.tracking.console import Console
from labkit.train.device import select
from labkit.train.twins import Effort, Twins, twins

VERSION = 1


def chosen(loaded: Loaded, only: Iterable[str]) -> list[Arm]:
    """The arms named; all where none is. Raises Mistake for a name that is none."""
    arms = {arm.name: arm for arm in loaded.experiment.arms}
    names = list(only) or list(arms)
    for name in names:
        if name not in arms:
            raise Mistake(f"--only {name}: no such variant.{closest(name, arms)}")
    return [arms[name] for name in names]


def check(console: Console, loaded: Loaded, arms: Sequence[Arm], effort: Effort) -> dict[str, Twins]:
    """Train every arm by both. Raises Mistake where there are no kernels."""
    device = select(effort.device)
    with using("triton"):
        if on_device(device) == "torch":
            here = f"on this machine's {str(device).upper()}" if device.type == "cpu" else f"on {device}"
            needed = "a GPU of compute capability 8.0 or more, with Triton"
            raise Mistake(
                f"check kernels: there is nothing to compare {here}, where every run takes torch's operations; "
                f"labkit's kernels need {needed}: give the command on a machine that has one"
            )
    found: dict[str, Twins] = {}
    with console.task("kernels beside references", 2 * effort.seeds * len(arms), "models") as advance:
        for arm in arms:
            store = prepare(arm.spec.data, arm.spec.tokenizer, loaded.base)
            arm.spec.schedule.check(effort.steps)
            found[arm.name] = twins(arm.spec, store, effort, lambda: advance(1))
            torch.cuda.empty_cache()
    return found


def show(console: Console, title: str, found: Mapping[str, Twins], effort: Effort) -> None:
    """A table, and what it comes to."""
    rows = [
        [name, *(f"{value:.4f}" for value in (each.kernels, each.references)), _short(each.difference),
         _short(each.spread), "agree" if each.agree else "part"]
        for name, each in found.items()
    ]  # fmt: skip
    styles = ["" if each.agree else "red" for each in found.values()]
    headers = [f"{effort.steps} steps", "loss by kernels", "by references", "mean |difference|", "between seeds", ""]
    console.table(title, headers, rows, styles)
    parted = [name for name, each in found.items() if not each.agree]
    console.show(
        f"{', '.join(parted)}: the kernels change more than a seed of the initial values does"
        if parted
        else f"{len(found)} of {len(found)} train by the kernels as by the references, within what a seed changes"
    )


def _short(value: float) -> str:
    return f"{value:.2e}"


def as_json(title: str, found: Mapping[str, Twins], effort: Effort) -> dict[str, Any]:
    return {
        "version": VERSION,
        "title": title,
        "steps": effort.steps,
        "seeds": effort.seeds,
        "variants": {name: _as_json(each) for name, each in found.items()},
    }


def _as_json(each: Twins) -> dict[str, Any]:
    """JSON knows no infinity: null stands for it."""
    values = {key: value if math.isfinite(value) else None for key, value in asdict(each).items()}
    return {**values, "agree": each.agree}
