"""What the variants have in common with the baseline: brought about by moving a size, refused where it cannot be."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from labkit.spec import Mistake, ValidationError
from labkit.study.counting import QUIET, Counted, Match, counted, place, tried
from labkit.study.experiment import Arm, Experiment
from labkit.study.names import brief
from labkit.study.sizes import fixed_layers, gives, place_of, size_at, step_of, with_size
from labkit.study.solver import nearest
from labkit.tracking.progress import Progress
from labkit.train.run import Flops

LARGEST = 2**62
"""To which size a match is looked for."""


def matched(experiment: Experiment, base: Path, progress: Progress = QUIET) -> list[Counted]:
    """The arms as they are trained: each variant as near the baseline as the experiment's `match_by` brings it.

    Raises Mistake for an arm that cannot be built, and for a variant that stays further off than the tolerance.
    """
    baseline, *variants = [counted(arm, base, progress) for arm in experiment.arms]
    if experiment.match == "none":
        return [baseline, *variants]
    arms = [baseline]
    for variant in variants:
        with tried(variant.arm, progress, "brought to the baseline's size"):
            arms.append(_near(_nearest(baseline, variant, experiment, base), experiment))
        if same := next((arm.arm.name for arm in arms[:-1] if arm.arm.spec == arms[-1].arm.spec), ""):
            raise Mistake(f"{place(variant.arm)}: once matched it is the same as {brief(same)}; leave one out")
    return arms


def _nearest(baseline: Counted, variant: Counted, experiment: Experiment, base: Path) -> Counted:
    """The variant with the size that brings it nearest, or as it is where nothing is nearer or it says the size."""
    on, arm = experiment.match, variant.arm
    as_written = Match(on, baseline, variant, variant.quantity(on))
    kept = replace(variant, match=as_written)
    if as_written.residual == 0 or _fixed(arm, experiment):
        return kept
    path = place_of(arm.spec, experiment.match_by)
    step, here = step_of(arm.spec, path), size_at(arm.spec, path) or 1

    def count(index: int) -> float | None:
        try:
            return counted(_sized(arm, experiment.match_by, step * index), base).quantity(on)
        except (Mistake, ValidationError):
            return None

    index = nearest(count, baseline.quantity(on), max(1, here // step), LARGEST // step)
    if index is None:
        return kept
    found = counted(_sized(arm, experiment.match_by, step * index), base)
    match = Match(on, baseline, variant, found.quantity(on), path, step * index)
    return replace(found, match=match) if abs(match.residual) < abs(as_written.residual) else kept


def _fixed(arm: Arm, experiment: Experiment) -> str:
    """Why nothing is moved in an arm; empty where something can be."""
    path = place_of(arm.spec, experiment.match_by)
    if not path:
        return f"it has no {experiment.match_by} to move"
    if gives(arm.changes, path):
        return f"it says {path} itself, so nothing was moved"
    if experiment.match == "flops" and isinstance(arm.spec.budget, Flops):
        return "its budget of FLOPs leaves it whole steps"
    return ""


def _sized(arm: Arm, match_by: str, size: int) -> Arm:
    spec, path = with_size(arm.spec, match_by, size), place_of(arm.spec, match_by)
    moved: dict[str, Any] = {path: size}
    if spec.model.pattern != arm.spec.model.pattern:
        moved["model.pattern"] = spec.model.pattern
    return Arm(arm.name, spec, {**arm.changes, **moved}, f"{_words(path)} {size}")


def _words(path: str) -> str:
    """``expert d_ff``: a size without the component that it belongs to."""
    steps = path.split(".")
    return " ".join(steps[2:] or steps[-1:])


def _near(variant: Counted, experiment: Experiment) -> Counted:
    """The variant itself. Raises Mistake where it is further from the baseline than the tolerance."""
    match = variant.match
    if match is None or abs(match.residual) <= experiment.tolerance:
        return variant
    counts = f"{match.final:,.0f} against the baseline's {match.baseline.quantity(match.on):,.0f}"
    enough = math.ceil(1000 * abs(match.residual)) / 1000
    wider = f"tolerance={enough:g}, " if enough < 0.1 else ""
    raise Mistake(
        f"{place(variant.arm)}: match={match.on!r} does not hold: {_tried(variant, experiment)}, {counts} "
        f"({_percent(match.residual)}, and the tolerance is {100 * experiment.tolerance:g} %); write {wider}"
        f"another match_by, such as {_other(experiment)!r}, or match='none'"
    )


def _percent(share: float) -> str:
    return f"{100 * share:+.2g} %" if abs(share) < 0.01 else f"{100 * share:+,.1f} %"


def _tried(variant: Counted, experiment: Experiment) -> str:
    """What was moved and how near it came, or why nothing was."""
    match, arm = variant.match, variant.arm
    path = place_of(arm.spec, experiment.match_by)
    if match is not None and match.is_moved:
        kept = _and_layers(arm, experiment)
        return f"{path} comes nearest at {match.after}, in steps of {step_of(arm.spec, path)}{kept}"
    if reason := _fixed(arm, experiment):
        return reason
    return f"no other {path} comes nearer than its {size_at(arm.spec, path)}{_and_layers(arm, experiment)}"


def _and_layers(arm: Arm, experiment: Experiment) -> str:
    """What a pattern keeps from moving."""
    fixed = fixed_layers(arm.spec, experiment.match_by)
    return f" (model.{', '.join(fixed)} {'have' if len(fixed) > 1 else 'has'} its own)" if fixed else ""


def _other(experiment: Experiment) -> str:
    return "model.n_layers" if experiment.match_by != "model.n_layers" else "model.feedforward.d_ff"
