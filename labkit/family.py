"""What a class leaves to those derived from it, and what one of the user's own lacks: told as the lines to write."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from types import FunctionType
from typing import Any, ClassVar, Literal, get_args, get_origin

from pydantic import BaseModel, PydanticUndefinedAnnotation, ValidationError

from labkit.fieldtypes import ABLE, can_be, is_constant, is_named, resolved, written

TYPES: dict[type, str] = {bool: "bool", int: "int", float: "Number", str: "str", tuple: "tuple[…, ...]"}
"""What stands for a value in a spec: the type to write."""


class Typed(BaseModel):
    """A model that tells what is wrong with a field where its class is defined, with what to write."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        annotations, constants = inspect.get_annotations(cls), set[str]().union(*map(_constants, cls.__mro__))
        for name, value in vars(cls).items():
            if not name.startswith("_") and name not in annotations and name not in constants and type(value) in TYPES:
                raise TypeError(_untyped(cls, name, value))
        for name, annotation in annotations.items():
            _check_field(cls, name, resolved(annotation, cls))

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        try:
            cls.model_rebuild()
        except PydanticUndefinedAnnotation as error:
            name = next(
                (name for name, text in inspect.get_annotations(cls).items() if str(error.name) in str(text)), ""
            )
            place = f"{cls.__qualname__}.{name}".rstrip(".")
            raise TypeError(f"{place}: nothing is called {error.name} there; import it above the class") from error
        for name, value, fault in _faulty_defaults(cls):
            raise TypeError(f"{cls.__qualname__}.{name} is {value!r} by default: {fault[0].lower()}{fault[1:]}")


def _check_field(cls: type[BaseModel], name: str, annotation: Any) -> None:
    """Raise TypeError for a field that hides what every spec has, or of a type that no spec can have."""
    if name.startswith("_") or is_constant(annotation):
        return
    if owner := next((base for base in cls.__mro__[1:] if name in vars(base)), None):
        raise TypeError(f"{cls.__qualname__}.{name}: {owner.__name__} has something of this name; rename the field")
    if not can_be(annotation, Typed) and not cls.__module__.startswith("labkit."):  # which hash none with a mapping
        raise TypeError(f"{cls.__qualname__}.{name} cannot have the type {written(annotation)}: a field is {ABLE}")


def _faulty_defaults(cls: type[BaseModel]) -> Iterator[tuple[str, Any, str]]:
    """The defaults that their fields do not take, each with its value and why."""
    try:
        cls.model_validate({})
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            is_for_later = detail["type"] in ("missing", "choice")  # a kind may be defined further below
            if detail["loc"] not in ((), ("kind",)) and not is_for_later:
                yield ".".join(map(str, detail["loc"])), detail["input"], detail["msg"].removeprefix("Value error, ")
    except Exception:  # of a validator of the class's own, which asks for more than defaults
        return


def _constants(cls: type) -> set[str]:
    return getattr(cls, "__class_vars__", set())


def _untyped(cls: type, name: str, value: Any) -> str:
    if name == "kind":
        return _kindless(cls, value)
    return f"{cls.__qualname__}.{name} has no type: write  {name}: {TYPES[type(value)]} = {value!r}"


def kind_of(cls: type[BaseModel]) -> str:
    """The one name that a variant's kind can be. Raises TypeError with the line to write."""
    field = cls.model_fields.get("kind")
    kind = None if field is None else field.default
    known = isinstance(kind, str) and field is not None and get_origin(field.annotation) is Literal
    if field is None or not known or get_args(field.annotation) != (kind,):
        raise TypeError(_kindless(cls, kind))
    if not is_named(str(kind)):
        raise TypeError(
            f"{cls.__qualname__} has the kind {kind!r}; write letters, digits and _, a letter first: 'mine'"
        )
    return str(kind)


def _kindless(cls: type, kind: Any) -> str:
    name = kind if isinstance(kind, str) else cls.__name__.lower()
    return f'{cls.__qualname__} needs a kind of one name: write  kind: Literal["{name}"] = "{name}"'


def is_due(member: Any) -> bool:
    """Whether a class leaves a method or a property to those derived from it."""
    function = _function(member)
    return function is not None and "NotImplementedError" in function.__code__.co_names


def lacking(cls: type, family: type) -> str:
    """What a class has to define of a family, or to define otherwise, with the lines to write; empty where nothing."""
    left = {name: signature(vars(family)[name]) for name in _left(cls, family)}
    left |= {name: f"{name}: {annotation} = …" for name, annotation in unset(cls, family)}
    which = f"{'an' if family.__name__[0] in 'AEIO' else 'a'} {family.__name__}"
    if left:
        lines = "  and  ".join(left.values())
        return f"{cls.__name__} is {which} without {' and '.join(left)}; write  {lines}"
    for name in _otherwise(cls, family):
        return f"{cls.__name__}.{name} is not what {which} has; write  {signature(vars(family)[name])}"
    return ""


def signature(member: Any) -> str:
    """``def build(self, width: int, place: Place) -> nn.Module``, as it stands in its file."""
    function = _function(member)
    assert function is not None
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    gives = f" -> {ast.unparse(tree.returns)}" if tree.returns else ""
    prefix = "@property " if isinstance(member, property) else ""
    return f"{prefix}def {tree.name}({ast.unparse(tree.args)}){gives}"


def _function(member: Any) -> FunctionType | None:
    function = member.fget if isinstance(member, property) else member
    return function if isinstance(function, FunctionType) else None


def members(family: type) -> Iterator[tuple[str, Any, FunctionType]]:
    """The methods and properties of a family that others may define, by name, each with its function."""
    for name, member in vars(family).items():
        if not name.startswith("_") and (function := _function(member)):
            yield name, member, function


def _left(cls: type, family: type) -> Iterator[str]:
    """What is due and not defined; what others of the family ask for need not be where one of these is replaced."""
    found = list(members(family))
    for name, member, _ in found:
        if is_due(member) and inspect.getattr_static(cls, name) is member:
            callers = [caller for caller, _, function in found if name in function.__code__.co_names]
            if all(inspect.getattr_static(cls, each) is vars(family)[each] for each in callers):
                yield name


def unset(cls: type, family: type) -> Iterator[tuple[str, str]]:
    """The constants that a family names and a class has no value of, each with its type."""
    for name, annotation in inspect.get_annotations(family).items():
        if get_origin(annotation) is ClassVar and not hasattr(cls, name):
            yield name, str(annotation).replace("typing.", "")


def _otherwise(cls: type, family: type) -> Iterator[str]:
    """What is defined as something else than the family has: no property, or with other parameters."""
    for name, member, function in members(family):
        own = inspect.getattr_static(cls, name)
        if own is member or not isinstance(own, FunctionType | property):
            continue
        if type(own) is not type(member) or not _takes(_function(own), function.__code__.co_argcount):
            yield name


def _takes(function: FunctionType | None, count: int) -> bool:
    """Whether a function can be called with so many arguments."""
    if function is None:
        return False
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    return True
