"""A user's own components, tried before anything long starts: what each builds, and what that makes of a few tokens.

On `meta` a module computes shapes and nothing else, so this takes milliseconds at any size. What fails there is tried
on the CPU before it is refused, and what asks for another device is not.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labkit.components import Attention, FeedForward, Head, Norm, Place, Position
from labkit.model import ModelSpec
from labkit.spec import Choice, Mistake, Spec
from labkit.study.loading import said, short

ROWS = 2
DEVICES = ("meta", "cuda", "gpu", "triton", "device")
"""An error that speaks of these says nothing of the shapes."""

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


def own_source(model: ModelSpec) -> str:
    """A digest of the files that the user's components of a model come from; empty where there are none."""
    files = {inspect.getsourcefile(type(part)) for part in own_parts(model)} - {None}
    texts = [Path(file).read_bytes() for file in sorted(map(str, files))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16] if texts else ""


def check_own(model: ModelSpec, vocab: int) -> None:
    """Raise Mistake where a user's component builds no module, or one that gives something of another shape."""
    for part in own_parts(model):
        _check(part, model, vocab)


def _check(part: Any, model: ModelSpec, vocab: int) -> None:
    width, place = model.d_model, Place(0, model.n_layers, model.context)
    length = model.context
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
            raise Mistake(f"{defined(part)}: {type(part).__name__}.build gives {module!r}; let it return an nn.Module")
        if type(module).forward is nn.Module.forward:
            name = type(module).__name__
            raise Mistake(f"{defined(part)}: {type(part).__name__}.build gives a {name}, which has no forward")
        _check_forward(module, lambda: part.build(*built), shapes, wanted)


def _check_forward(module: nn.Module, build: Callable[[], nn.Module], shapes: tuple[Shape, ...], wanted: Shape) -> None:
    """Raise Mistake for another shape; where neither `meta` nor the CPU can tell, nothing is said."""
    place = f"{_line_of(module.forward)}: {type(module).__name__}.forward"
    should = f"; it is given {' and '.join(map(str, shapes))}, and is to return a tensor of {wanted}"
    try:
        found = _tried(module, shapes, "meta")
    except Exception:
        try:
            with torch.random.fork_rng(devices=[]):
                found = _tried(build(), shapes, "cpu")
        except Exception as error:
            if isinstance(error, NotImplementedError) or any(word in str(error).lower() for word in DEVICES):
                return
            raise Mistake(f"{place} raises {said(error).rstrip('.')}{should}") from error
    if not isinstance(found, Tensor):
        raise Mistake(f"{place} returns a {type(found).__name__}{should}")
    if tuple(found.shape) != wanted:
        raise Mistake(f"{place} returns a tensor of {tuple(found.shape)}{should}")


def _tried(module: nn.Module, shapes: tuple[Shape, ...], device: str) -> Any:
    with torch.device(device), torch.no_grad():
        return module(*(torch.zeros(shape) for shape in shapes))


def defined(part: Any) -> str:
    """The file and the line of a component's `build`."""
    return _line_of(type(part).build)


def _line_of(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return f"{short(Path(code.co_filename))}:{code.co_firstlineno}" if code else ""
