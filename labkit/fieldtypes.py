"""What a field of a spec may be, and what it may be called."""

import re
import sys
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, ForwardRef, Literal, Union, get_args, get_origin

ABLE = "a number, a string, a boolean, a tuple of these, or a spec"
PLAIN = (bool, int, float, str, tuple, NoneType, None)


def is_named(kind: str) -> bool:
    """Whether a kind can stand in names and paths as it is."""
    return re.fullmatch("[A-Za-z][A-Za-z0-9_]*", kind) is not None


def resolved(annotation: Any, cls: type) -> Any:
    """A type that was written as a text; the text where it says nothing in the class's module."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, dict(vars(sys.modules[cls.__module__])), {cls.__name__: cls})
    except Exception:
        return annotation


def is_constant(annotation: Any) -> bool:
    """Whether it is no field's but the class's own."""
    return annotation in (ClassVar, Final) or get_origin(annotation) in (ClassVar, Final)


def can_be(annotation: Any, spec: type) -> bool:
    """Whether a field can have this type; `spec` is what all specs derive from. One that is a text may be."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal or isinstance(annotation, str | ForwardRef):
        return True
    if origin is Annotated:
        return can_be(args[0], spec)
    if origin in (tuple, Union, UnionType):
        return all(can_be(each, spec) for each in args if each is not Ellipsis and each != ())
    if isinstance(annotation, type):
        is_word = issubclass(annotation, Enum) and issubclass(annotation, str | int)
        return annotation in PLAIN or is_word or issubclass(annotation, spec)
    return annotation is None or (hasattr(annotation, "__value__") and can_be(annotation.__value__, spec))


def written(annotation: Any) -> str:
    """A type as it is written: ``torch.Tensor``, ``set[str]``."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        module = "" if annotation.__module__ == "builtins" else f"{annotation.__module__}."
        return f"{module}{annotation.__qualname__}"
    return str(annotation).replace("typing.", "")


def each_once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values of which none is said twice. Raises ValueError."""
    twice = [value for value in values if values.count(value) > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} stands twice; write each once: {list(dict.fromkeys(values))}")
    return values
