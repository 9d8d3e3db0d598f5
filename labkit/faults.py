"""What is wrong with a spec: the place, the value, and what to write instead, in one line a fault."""

import difflib
import re
from collections.abc import Iterable, Iterator
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from labkit.family import Typed

PLAIN = ("choice", "value_error", "idle", "unheld")
"""Faults whose message names the value."""


def closest(name: str, names: Iterable[str]) -> str:
    """The tail of an error message: the nearest known name, or all of them."""
    known = sorted(names)
    match = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {match[0]!r}?" if match else f" Choose from: {', '.join(known)}."


def explain(error: ValidationError, root: type[Typed]) -> str:
    """One line a fault: the field's path, what is wrong with the value, and what to write instead."""
    return "\n".join(_fault(detail, root) for detail in error.errors(include_url=False))


def spec_of(annotation: Any) -> Any:
    """The spec class in an annotation: X, X | None, tuple[X, ...]; or whatever else the annotation says."""
    if isinstance(annotation, type) and issubclass(annotation, Typed):
        return annotation
    inner = [spec_of(arg) for arg in get_args(annotation) if arg not in (NoneType, Ellipsis)]
    return next((arg for arg in inner if isinstance(arg, type) and issubclass(arg, Typed)), annotation)


def _fault(detail: ErrorDetails, root: type[Typed]) -> str:
    path = ".".join(str(step) for step in detail["loc"])
    message, value = detail["msg"].removeprefix("Value error, "), detail["input"]
    if detail["type"] == "extra_forbidden":
        *parents, last = detail["loc"]
        fields = _fields_at(root, parents)
        return f"{path}: no such field.{closest(str(last), fields)}" if fields else f"{path}: no such field."
    if detail["type"] == "missing":
        return f"{path}: this field is required."
    if detail["type"] == "unheld" and _takes(root, detail["loc"], 0.0):
        message = message.replace("; write what", "; write 0, or what")
    if detail["type"] in PLAIN:
        field = re.match(r"\w+(?=[.:])", message)
        below = field is not None and field[0] in _fields_at(root, detail["loc"])
        return f"{path}{'.' if below else ': '}{message}" if path else message
    may_lack = (isinstance(value, str) or value is False) and _takes(root, detail["loc"], None)
    return f"{path}: {message} (got {value!r}){'; for none write null, in Python None' if may_lack else ''}"


def _fields_at(root: type[Typed], steps: Iterable[str | int]) -> list[str]:
    """The fields of the spec at a path, in whichever variants may stand there."""
    return sorted({name for at in _at(root, steps) for one in _classes(spec_of(at)) for name in one.model_fields})


def _takes(root: type[Typed], steps: Iterable[str | int], value: object) -> bool:
    """Whether what stands at a path may have a value, in every variant that may stand there."""
    found = _at(root, steps)
    return bool(found) and all(_is_taken(annotation, value) for annotation in found)


def _at(root: type[Typed], steps: Iterable[str | int]) -> list[Any]:
    """What the annotations say of a path, each that may stand there; nothing where they do not tell."""
    found: list[Any] = [root]
    for step in steps:
        found = [inner for annotation in found for inner in _inside(annotation, step)]
    return found


def _is_taken(annotation: Any, value: object) -> bool:
    try:
        TypeAdapter[Any](annotation).validate_python(value, strict=True)
    except (ValueError, TypeError):
        return False
    return True


def _inside(annotation: Any, step: str | int) -> Iterator[Any]:
    """What an annotation says of one field of its specs, or of one entry of its tuples."""
    if isinstance(annotation, type) and issubclass(annotation, Typed):
        for field in (one.model_fields[str(step)] for one in _classes(annotation) if step in one.model_fields):
            yield Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    elif get_origin(annotation) is tuple and isinstance(step, int):
        entries = get_args(annotation)
        yield entries[0] if Ellipsis in entries else entries[min(step, len(entries) - 1)]
    else:
        for inner in get_args(annotation):
            yield from _inside(inner, step)


def _classes(at: Any) -> list[type[Typed]]:
    """A spec class; of a family, its variants."""
    if not isinstance(at, type) or not issubclass(at, Typed):
        return []
    variants: dict[str, type[Typed]] = getattr(at, "variants", {})
    return [at] if "kind" in at.model_fields else list(variants.values()) or [at]
