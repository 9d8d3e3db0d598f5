"""One training step of a model with components of the user's own, before anything starts: what no shape alone tells.

The model has its widths and each of its layers' kinds once. The step is a real one on the CPU, in the precision of the
run, with its optimizer and learning rates; of a large model on short sequences, and of one that is too large for that
the passes are made on `meta`, for shapes alone.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from labkit.components import Head
from labkit.model import Transformer, costs
from labkit.optim.stepper import Stepper
from labkit.optim.weights import Weights
from labkit.spec import Mistake, ValidationError
from labkit.study.calls import ROWS
from labkit.study.honest import check_honest
from labkit.study.own import defined, is_of_a_device, own_parts, parts_of, told, where
from labkit.study.trial import aside
from labkit.train.checkpoint import packed
from labkit.train.execution import Eager
from labkit.train.run import RunSpec
from labkit.train.step import Step

VOCABULARY = 300
"""Tokens that are enough for what does not read them."""
SHORT = 32
"""Tokens of a sequence of a model that is too large for longer ones."""
TWICE = 2
"""Steps: what the first leaves behind is there in the second."""
CHEAP = 5e9
"""FLOPs of a step that takes a CPU a tenth of a second."""
PRECISIONS = ("dtype", "scalar type", "BFloat16")
"""What an error speaks of where precisions do not meet, which `meta` does not see."""

_rehearsed: set[Any] = set()
"""What went well in this process: the classes, by the place, and the precision."""


def rehearse(spec: RunSpec, vocab: int, steps: int, base: Path) -> None:
    """Raise Mistake where a step fails; each composition of components is tried once. `base` is the file's folder."""
    if not (own := own_parts(spec)):
        return
    composition = (*map(type, own), *map(type, parts_of(spec)), spec.precision)
    if composition in _rehearsed:
        return
    _check_numbers(spec, own, steps)
    vocab = vocab if any(isinstance(part, Head) for part in own) else min(vocab, VOCABULARY)
    try:
        _tried(_cut(spec, own), vocab, steps)
    except Mistake:
        raise
    except Exception as error:
        if not is_of_a_device(error):
            how = f"in a training step in {spec.precision}, tried beforehand"
            raise Mistake(f"{where(error, spec, base)}{told(error)} ({how})") from error
    _rehearsed.add(composition)


def _cut(spec: RunSpec, own: Sequence[Any]) -> RunSpec:
    """The same with as few layers as show all of its kinds, and with short sequences where only others read them."""
    model = spec.model
    changes: dict[str, Any] = {"model.n_layers": min(model.n_layers, max(1, len(model.pattern))), "batch_size": ROWS}
    if not any(part in own for part in parts_of(model)):
        changes["model.context"] = min(model.context, 16)
    return _with(spec, changes)


def _with(spec: RunSpec, changes: Mapping[str, Any]) -> RunSpec:
    """The same with changes, or as it is where the user's own do not take them."""
    try:
        return spec.patched(changes)
    except (ValidationError, Mistake):
        return spec


def _check_numbers(spec: RunSpec, own: Sequence[Any], steps: int) -> None:
    """Raise Mistake where a budget or a schedule of the user's own gives what is no number of that kind."""
    if spec.budget in own and (type(steps) is not int or steps < 1):
        raise _otherwise(spec.budget, f"whole_steps gives {steps!r}", "an int from 1")
    for step in (0, steps // 2, steps - 1) if spec.schedule in own else ():
        factor: Any = spec.schedule.factor(step, steps)
        if not isinstance(factor, int | float) or not 0 <= factor < math.inf:
            raise _otherwise(spec.schedule, f"factor({step}, {steps}) gives {factor!r}", "a number from 0")


def _otherwise(part: Any, gives: str, wanted: str) -> Mistake:
    return Mistake(f"{defined(part)}: {type(part).__name__}.{gives}; let it return {wanted}")


def _tried(spec: RunSpec, vocab: int, steps: int) -> None:
    """On shorter sequences where they have to be: what fails there may do so for the length, unless of a precision."""
    factors = [spec.schedule.factor(step, steps) for step in range(min(TWICE, steps))]
    short = _with(spec, {"model.context": min(SHORT, spec.model.context)})
    with aside():
        if _work(spec, vocab) <= CHEAP:
            _steps(spec, vocab, factors)
        elif _work(short, vocab) <= CHEAP:
            try:
                _steps(short, vocab, factors)
            except Mistake:
                raise
            except Exception as error:
                _passes(spec, vocab)
                if any(word in str(error) for word in PRECISIONS):
                    raise
        else:
            _passes(spec, vocab)


def _work(spec: RunSpec, vocab: int) -> float:
    """FLOPs of a step."""
    return costs(spec.model, vocab).flops_per_token * spec.tokens_per_step


def _passes(spec: RunSpec, vocab: int) -> None:
    """Forward and backward on `meta`."""
    with torch.device("meta"):
        model = Transformer(spec.model, vocab)
        Weights(model, spec.precision)
        tokens_BT = torch.zeros(ROWS, spec.model.context, dtype=torch.int64)
        model.losses(tokens_BT, tokens_BT).sum().backward()


def _steps(spec: RunSpec, vocab: int, factors: Sequence[float]) -> None:
    """As a run makes them, then what is kept and what is scored."""
    model = Transformer(spec.model, vocab)
    model.initialize(0)
    weights = Weights(model, spec.precision)
    optimizer: Any = spec.optimizer.build(weights)
    if not isinstance(optimizer, Stepper):
        gives = f"build gives a {type(optimizer).__name__}"
        raise _otherwise(spec.optimizer, gives, "a Stepper, such as labkit.optim.guarded.Guarded")
    step = Step(
        model,
        weights,
        optimizer,
        factors=factors,
        clip=spec.clip,
        batch_size=ROWS,
        length=spec.model.context,
        rows=ROWS,
        dropout_seed=0,
        execution=Eager(),
    )
    tokens_BT = torch.randint(vocab, (ROWS, spec.model.context + 1))
    for index in range(len(factors)):
        step(index, tokens_BT)
    packed(weights, optimizer)
    model.eval()
    with torch.no_grad():
        model.losses(tokens_BT[:, :-1], tokens_BT[:, 1:])
    if own := [part for part in own_parts(spec) if part in parts_of(spec.model)]:
        check_honest(spec, own, tokens_BT, vocab)
