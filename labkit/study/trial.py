"""A user's own components, tried before anything long starts: what each builds, and what that makes of a few tokens.

On `meta` a module computes shapes and nothing else, at any size; what is cheap is tried on the CPU, which tells more.
What fails on `meta` is tried there before it is refused, and what asks for another device is not. The lengths are that
of training and those that `evaluation.beyond` asks for.
"""

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from labkit.components.gather import AttentionModule
from labkit.spec import Mistake
from labkit.study.calls import Generating, Trial, trials
from labkit.study.own import defined, first_line, is_of_a_device, is_ours, placed, told
from labkit.train.run import RunSpec

CHEAP = 5e9
"""Operations that a core makes in a tenth of a second."""
DRAWN = 200.0
"""As many as it takes to draw a number."""
AFFORDED = 1e11
"""Those for which it is asked where `meta` cannot tell."""
BEYOND = " (evaluation.beyond asks for that length; give the position a reach, or set it to [])"


def check_own(spec: RunSpec, vocab: int) -> None:
    """Raise Mistake where a user's component builds no module, or one that gives something of another shape."""
    for part, layer in placed(spec):
        for length in lengths(spec):
            for trial in trials(part, layer, vocab, length):
                _check(trial, "" if length == layer.context else BEYOND)


def lengths(spec: RunSpec) -> list[int]:
    """The training length first; then the others that are read at the end."""
    context, reach = spec.model.context, spec.model.reach or math.inf
    beyond = [times * context for times in sorted(spec.evaluation.beyond)]
    return [context, *(length for length in beyond if length <= reach)]


def _check(trial: Trial, why: str) -> None:
    with torch.device("meta"):
        module = trial.build()
    line, (family, wanted) = first_line(getattr(type(trial.part), trial.method)), trial.builds
    if not isinstance(module, family):
        raise Mistake(f"{line}: {trial.name} gives {module!r}; let it return {wanted}")
    if type(module).forward is nn.Module.forward:
        raise Mistake(f"{line}: {trial.name} gives a {type(module).__name__}, which has no forward")
    if isinstance(module, AttentionModule) or not isinstance(trial, Generating):
        _check_forward(module, trial, why)


def _check_forward(module: nn.Module, trial: Trial, why: str) -> None:
    """Raise Mistake for another shape; where neither `meta` nor the CPU can tell, nothing is said."""
    line = defined(trial.part) if is_ours(type(module).forward) else first_line(module.forward)
    place = f"{line}: {type(module).__name__}.forward"
    should = f"; it is given {trial.given}, and is to return a tensor of {trial.wanted}{why}"
    try:
        found = _tried(module, trial)
    except Exception as error:
        if is_of_a_device(error):
            return
        raise Mistake(f"{place} raises {told(error)}{should}") from error
    if not isinstance(found, Tensor):
        raise Mistake(f"{place} returns a {type(found).__name__}{should}")
    if not trial.fits(tuple(found.shape)):
        raise Mistake(f"{place} returns a tensor of {tuple(found.shape)}{should}")


def _tried(module: nn.Module, trial: Trial) -> Any:
    tokens, given = math.prod(trial.shapes[0][:-1]), sum(map(math.prod, trial.shapes))
    stored = sum(each.numel() for each in module.parameters())
    work = trial.work + 2.0 * tokens * stored + DRAWN * (stored + given)
    if work > CHEAP:
        try:
            with torch.device("meta"), torch.no_grad():
                return trial.called(module)
        except Exception:
            if work > AFFORDED:
                raise
    with aside(), torch.no_grad():
        module = trial.build()
        for stored in module.parameters():
            if stored.ndim > 1:
                stored.normal_(0.0, 0.02)
        return trial.called(module)


@contextmanager
def aside() -> Generator[None]:
    """What is computed inside, on the CPU, leaves no trace, and waits for no other thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)
