"""A user's own components, tried before anything long starts: what each builds, and what that makes of a few tokens.

On `meta` a module computes shapes and nothing else, so this takes milliseconds at any size.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labkit.components import Attention, FeedForward, Head, Norm, Place, Position
from labkit.model import ModelSpec
from labkit.spec import Choice, Mistake, Spec
from labkit.study.loading import said, short

ROWS, LENGTH = 2, 8

Shape = tuple[int, ...]


def own_parts(model: ModelSpec) -> list[Any]:
    """The user's components of a model, the outer ones first; those of layers that differ among them."""
    layers = model.layers[: len(model.pattern)]
    found = [
        part for spec in (model, *layers) for part in _parts(spec) if not type(part).__module__.startswith("labkit.")
    ]
    return [part for index, part in enumerate(found) if part not in found[:index]]


def _parts(spec: Spec) -> Iterator[Choice]:
    for _, value in spec:
        if isinstance(value, Choice):
            yield value
        if isinstance(value, Spec):
            yield from _parts(value)


def check_own(model: ModelSpec, vocab: int) -> None:
    """Raise Mistake where a user's component builds no module, or one that gives something of another shape."""
    for part in own_parts(model):
        _check(part, model, vocab)


def _check(part: Any, model: ModelSpec, vocab: int) -> None:
    width, place = model.d_model, Place(0, model.n_layers, model.context)
    length = min(LENGTH, model.context)
    stream: Shape = (ROWS, length, width)
    built: Any = ()
    shapes: tuple[Shape, ...] = (stream,)
    wanted = stream
    if isinstance(part, Attention):
        built = (width, place, model.position, model.dropout.attention)
    elif isinstance(part, Norm | FeedForward | Position):
        built = (width, place)
    elif isinstance(part, Head):
        built, shapes, wanted = (vocab, width), (stream, (vocab, width)), (ROWS, length, vocab)
    if built:
        with torch.device("meta"):
            module = part.build(*built)
            if not isinstance(module, nn.Module):
                raise Mistake(
                    f"{defined(part)}: {type(part).__name__}.build gives {module!r}; let it return an nn.Module"
                )
            _check_forward(module, shapes, wanted)


def _check_forward(module: nn.Module, shapes: tuple[Shape, ...], wanted: Shape) -> None:
    """Raise Mistake for another shape; where `meta` cannot tell, since the values decide, nothing is said."""
    place = f"{_line_of(module.forward)}: {type(module).__name__}.forward"
    should = f"; it is given {' and '.join(map(str, shapes))}, and is to return a tensor of {wanted}"
    try:
        found = module(*(torch.empty(shape) for shape in shapes))
    except Exception as error:
        if isinstance(error, NotImplementedError) or "meta" in str(error).lower():
            return
        raise Mistake(f"{place} raises {said(error).rstrip('.')}{should}") from error
    if not isinstance(found, Tensor):
        raise Mistake(f"{place} returns a {type(found).__name__}{should}")
    if tuple(found.shape) != wanted:
        raise Mistake(f"{place} returns a tensor of {tuple(found.shape)}{should}")


def defined(part: Any) -> str:
    """The file and the line of a component's `build`."""
    return _line_of(type(part).build)


def _line_of(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return f"{short(Path(code.co_filename))}:{code.co_firstlineno}" if code else ""
