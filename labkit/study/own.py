"""A user's own components: which of them a spec holds, where they are defined, and what their errors say."""

import hashlib
import inspect
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labkit.family import is_due, signature
from labkit.model import ModelSpec
from labkit.spec import Choice, Spec
from labkit.study.loading import line_of, said, short
from labkit.train.run import RunSpec

DEVICES = ("meta", "cuda", "gpu", "triton", "device", "backend", "not implemented for", "not supported")
"""An error that speaks of these says nothing of the shapes."""


def own_parts(spec: RunSpec) -> list[Any]:
    """The user's components of a spec, the outer ones first, those of layers that differ among them."""
    return [part for part, _ in placed(spec)]


def placed(spec: RunSpec) -> list[tuple[Any, ModelSpec]]:
    """The same, each with the model as the layer has it that it stands in."""
    model = spec.model
    found = [(part, layer) for layer in (model, *model.layers[: len(model.pattern)]) for part in parts_of(layer)]
    found += [(part, model) for part in parts_of(spec)]
    own = [each for each in found if not is_ours(type(each[0]))]
    return [each for index, each in enumerate(own) if each[0] not in [part for part, _ in own[:index]]]


def parts_of(spec: Spec) -> Iterator[Choice]:
    """Every component of a spec, the outer ones first."""
    for _, value in spec:
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Choice):
                yield item
            if isinstance(item, Spec):
                yield from parts_of(item)


def is_ours(thing: Any) -> bool:
    """Whether a class or a function is labkit's."""
    return thing.__module__.startswith("labkit.")


def own_files(spec: RunSpec) -> list[Path]:
    """The files that the user's components of a spec come from."""
    return sorted({Path(file) for part in own_parts(spec) if (file := inspect.getsourcefile(type(part)))})


def own_source(spec: RunSpec) -> str:
    """A digest of the files that the user's components come from; empty where there are none."""
    texts = [file.read_bytes() for file in own_files(spec)]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16] if texts else ""


def is_of_a_device(error: Exception) -> bool:
    """Whether an error speaks of where something is computed, so that it says nothing of another device."""
    text = str(error) or traceback.extract_tb(error.__traceback__)[-1].line or ""
    return any(word in text.lower() for word in DEVICES)


def told(error: BaseException) -> str:
    """What an error says; where it is the bare one of a method that is left to others, what to write."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    owner, name = type(frame.f_locals.get("self")), frame.f_code.co_name
    if isinstance(error, NotImplementedError) and is_due(method := getattr(owner, name, None)):
        return f"NotImplementedError: {owner.__name__} has no {name}; write  {signature(method)}"
    return said(error).rstrip(".")


def where(error: BaseException, spec: RunSpec, base: Path) -> str:
    """The user's line that the error went through; else where the component that it must come from is defined."""
    line, own = line_of(error, base / "-"), own_parts(spec)
    if line != short(base / "-"):
        return f"{line}: "
    return f"{defined(own[0])}: " if own else ""


def defined(part: Any) -> str:
    """The file and the line of the first method of a component."""
    return next((line for method in vars(type(part)).values() if (line := first_line(method))), type(part).__name__)


def first_line(function: Any) -> str:
    """The file and the line of a function; empty for what is none."""
    code = getattr(function, "__code__", None)
    return f"{short(Path(code.co_filename))}:{code.co_firstlineno}" if code else ""
