"""Specs: frozen, strict descriptions that hash, diff, patch and round-trip through JSON; and open families of them."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic import ValidationError as ValidationError
from pydantic_core import PydanticCustomError, core_schema

from labkit.family import Typed, kind_of, lacking
from labkit.faults import closest, spec_of

SMALLEST, LARGEST = 2.0**-126, (2 - 2.0**-23) * 2.0**127
"""What fp32 and bf16 hold in full: nearer to zero a number would be zero there, and further out infinite."""


def _held(value: float) -> float:
    if value and not SMALLEST <= abs(value) <= LARGEST:
        message = "{value} is nothing that fp32 holds; write what is between 1.2e-38 and 3.4e+38 in size"
        raise PydanticCustomError("unheld", message, {"value": f"{value:g}"})
    return value + 0.0


Number = Annotated[float, Field(allow_inf_nan=False), AfterValidator(_held)]
"""A float that fp32 holds; integers become floats and -0.0 becomes 0.0: equal numbers have equal fingerprints."""

Count = Annotated[int, Field(gt=0, lt=2**63)]
"""A positive integer that a machine can count to."""

Size = Annotated[int, Field(gt=0, le=2**20)]
"""A positive integer that something is made of: what is larger is a slip of the pen, and would hang or be killed."""

Words = Annotated[str, Field(min_length=1)]
"""A text that is not empty."""


class Mistake(ValueError):
    """What a user can mend: the place, the value, what to write instead. The command line prints it and exits 2."""


class Spec(Typed):
    """An immutable description of a thing to build: finite numbers, strings, booleans, tuples and specs."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        validate_default=True,
        allow_inf_nan=False,
        polymorphic_serialization=True,
        use_attribute_docstrings=True,
    )

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits naming what differs from the defaults; equal specs share it in all processes.

        A default may therefore never change (golden tests hold them); a new field with a default leaves old
        fingerprints as they were.
        """
        payload = json.dumps(lean(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(payload.encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """The shortest text that names this spec: its kind, and what differs from its defaults: ``rms(eps=1e-05)``."""
        fields = {name: getattr(self, name) for name in lean(self)}
        kind = fields.pop("kind", type(self).__name__)
        inner = ", ".join(f"{name}={shown(value)}" for name, value in fields.items())
        return f"{kind}({inner})" if inner else str(kind)

    def idle(self) -> Mapping[str, str]:
        """Dotted path -> why, of the settings that change nothing beside the others; each may have its default only."""
        return {}

    @model_validator(mode="after")
    def _acts(self) -> Self:
        for path, why in self.idle().items():
            value, default = _at_default(self, path)
            if value != default:
                message = "{path}: {value} changes nothing {why}"
                raise PydanticCustomError("idle", message, {"path": path, "value": shown(value), "why": why})
        return self

    def patched(self, changes: Mapping[str, Any]) -> Self:
        """A copy with every dotted path set, validated as a whole: changes that need each other may come together.

        Numbers step into tuples: ``{"layers.0.theta": 5e5}``. A short form and what lies under it may come together:
        ``{"model.norm": "rms", "model.norm.eps": 1e-5}``. What the changes leave idle goes back to its default.
        Raises Mistake for a wrong path, ValidationError for a wrong value.
        """
        given: Any = changes
        if not isinstance(given, Mapping) or not all(isinstance(path, str) and path for path in given):
            first = next(iter(type(self).model_fields), "field")
            raise Mistake(f"{given!r} says no change; write each path with its value: {{{first!r}: …}}")
        tree = self.as_json()
        for path, value in sorted(changes.items(), key=lambda change: change[0].count(".")):
            _place(self, tree, path, value)
        return without_idle(type(self), tree, changes)

    def differences(self, other: "Spec") -> dict[str, tuple[str, str]]:
        """Path -> (here, there) for all that differs, as short texts; a component of another kind is one entry."""
        return dict(_differences(self, other, ""))

    def flat(self) -> dict[str, Any]:
        """Dotted path -> value for every leaf; a component stands at its own path by its kind."""
        return dict(_leaves(self, ""))

    def as_json(self) -> dict[str, Any]:
        """The whole spec as plain JSON values, defaults included."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """The spec that `as_json` gave. Raises ValidationError."""
        return cls.model_validate_json(_dumps(tree))


_UNFOLDED: set[type["Choice"]] = set()
"""The families whose JSON schema is being written."""


class Choice(Spec):
    """A family of interchangeable variants, told apart by their `kind`.

    Subclass Choice itself to open a family (no `kind`); subclass the family to add a variant
    (``kind: Literal["x"] = "x"``). A field annotated with the family accepts every variant known when the value
    arrives: an instance, its fields, or the short form "x".
    """

    variants: ClassVar[dict[str, type["Choice"]]]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if Choice in cls.__bases__:
            cls.variants = {}
            return
        kind = kind_of(cls)
        if text := lacking(cls, next(base for base in cls.__mro__ if Choice in base.__bases__)):
            raise Mistake(text)
        taken = cls.variants.get(kind)
        if taken is not None and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"kind {kind!r} is taken by {taken.__module__}.{taken.__qualname__}")
        cls.variants[kind] = cls

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        if "kind" in cls.model_fields:
            return handler(source)
        return core_schema.no_info_plain_validator_function(cls._resolve)

    @classmethod
    def _resolve(cls, value: Any) -> "Choice":
        if isinstance(value, cls):
            return value
        fields = {"kind": value} if isinstance(value, str) else value
        if not isinstance(fields, dict) or "kind" not in fields:
            message = "expected a {family}: a kind's name, or its fields with a 'kind'.{hint}"
            raise PydanticCustomError("choice", message, {"family": cls.__name__, "hint": closest("", cls.variants)})
        kind = fields["kind"]
        if not isinstance(kind, str) or kind not in cls.variants:
            message = "unknown {family} kind {kind}.{hint}"
            hint = closest(str(kind), cls.variants)
            raise PydanticCustomError("choice", message, {"family": cls.__name__, "kind": repr(kind), "hint": hint})
        return cls.variants[kind].from_json(fields)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        if "kind" in cls.model_fields:
            return handler(schema)
        if cls in _UNFOLDED:  # a variant that holds its own family, such as a mixture of experts
            return {"title": cls.__name__, "type": ["string", "object"]}
        choices = {kind: variant.__pydantic_core_schema__ for kind, variant in sorted(cls.variants.items())}
        _UNFOLDED.add(cls)
        try:
            return handler(core_schema.tagged_union_schema(choices, discriminator="kind"))
        finally:
            _UNFOLDED.remove(cls)


def _at_default(spec: Spec, path: str) -> tuple[Any, Any]:
    """What stands at a path, and what stands there by default."""
    *parents, name = path.split(".")
    owner: Any = reduce(getattr, parents, spec)
    field, value = type(owner).model_fields[name], getattr(owner, name)
    return value, value if field.is_required() else field.get_default(call_default_factory=True)


def without_idle(cls: Any, tree: Any, changes: Iterable[str] = ()) -> Any:
    """The spec of a tree, without what its changes left idle and do not say. Raises ValidationError."""
    while True:
        try:
            return cls.from_json(tree)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                path = ".".join([*map(str, detail["loc"]), detail.get("ctx", {}).get("path", "")])
                said = any(f"{path}.".startswith(f"{one}.") or one.startswith(f"{path}.") for one in changes)
                if detail["type"] != "idle" or said:
                    raise
                *parents, name = path.split(".")
                del reduce(lambda at, step: at[int(step)] if isinstance(at, list) else at[step], parents, tree)[name]


def shown(value: Any) -> str:
    """A value as a short text: components by their label, numbers without noise."""
    if isinstance(value, Spec):
        return value.label
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return "(" + ", ".join(shown(item) for item in value) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{path}={shown(item)}" for path, item in _paths(value, "")) + "}"
    return str(value)


def _paths(tree: Mapping[str, Any], under: str) -> Iterator[tuple[str, Any]]:
    """The values of a tree by their dotted paths."""
    for name, item in tree.items():
        if isinstance(item, dict) and item:
            yield from _paths(item, f"{under}{name}.")
        else:
            yield under + name, item


def lean(value: Any) -> Any:
    """A value as JSON without what equals its default; a variant keeps its kind."""
    if isinstance(value, tuple):
        return [lean(item) for item in value]
    if isinstance(value, dict):
        return {key: lean(item) for key, item in value.items()}
    if not isinstance(value, Spec):
        return value
    fields = type(value).model_fields
    return {
        name: lean(item)
        for name, item in value
        if name == "kind" or item != fields[name].get_default(call_default_factory=True)
    }


def _dumps(tree: Any) -> str:
    return json.dumps(tree, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Spec):
        return value.as_json()
    raise Mistake(f"a spec holds numbers, strings, booleans, tuples and specs; {value!r} is a {type(value).__name__}")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple) and any(isinstance(item, Spec) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}.{index}")
    elif isinstance(value, Spec):
        for name, item in sorted(value, key=lambda field: field[0] != "kind"):
            here = path if name == "kind" else f"{path}.{name}" if path else name
            yield from _leaves(item, here)
    else:
        yield path, value


def _differences(here: Any, there: Any, path: str) -> Iterator[tuple[str, tuple[str, str]]]:
    if here == there:
        return
    if isinstance(here, Spec) and type(here) is type(there):
        for name, item in here:
            yield from _differences(item, getattr(there, name), f"{path}.{name}" if path else name)
    else:
        yield path, (_told(here, there), _told(there, here))


def _told(value: Any, other: Any) -> str:
    """A value as a short text, a component with those of its fields that the other one's label gives other values.

    ``muon(lr=0.001)`` beside ``adamw(lr=0.006)``: what was set there is not set here, and must not go unseen.
    """
    if not isinstance(value, Spec) or not isinstance(other, Spec):
        return shown(value)
    own = lean(value)
    unlike = {name for name in lean(other) if getattr(value, name, None) != getattr(other, name)}
    fields = [name for name in type(value).model_fields if name != "kind" and (name in own or name in unlike)]
    inner = ", ".join(f"{name}={shown(getattr(value, name))}" for name in fields)
    return f"{own.get('kind', type(value).__name__)}({inner})" if inner else value.label


def _opened(tree: Any, cls: Any) -> tuple[Any, Any]:
    """A place in a dumped tree as something to step into, with its class: "rms" becomes {"kind": "rms"} and Rms."""
    if isinstance(cls, type) and issubclass(cls, Choice) and "kind" not in cls.model_fields:
        tree = {"kind": tree} if isinstance(tree, str) else tree
        if isinstance(tree, dict) and isinstance(kind := tree.get("kind"), str) and kind in cls.variants:
            return tree, cls.variants[kind]
    return tree, cls


def _place(spec: Spec, tree: dict[str, Any], path: str, value: Any) -> None:
    """Put a value into a spec's dumped tree at a path; numbers step into tuples, a short form opens its family."""
    at: Any = tree
    cls: Any = type(spec)
    steps = path.split(".")
    for depth, step in enumerate(steps):
        if isinstance(at, list):
            if step not in map(str, range(len(at))):
                raise Mistake(f"{path}: {step!r} is no index into {len(at)} entries")
            key: Any = int(step)
        elif isinstance(at, dict):
            key = step
            if not (isinstance(cls, type) and issubclass(cls, Spec)):
                at.setdefault(step, {})  # a plain mapping takes any key; its owner checks what it means
            elif step not in cls.model_fields:
                where = at.get("kind") or cls.__name__
                raise Mistake(f"{path}: {where} has no field {step!r}.{_meant(spec, steps[depth:], cls)}")
            else:
                field = cls.model_fields[step]
                cls = spec_of(field.annotation)
                if step not in at and not field.is_required():
                    at[step] = json.loads(_dumps(field.get_default(call_default_factory=True)))
        else:
            raise Mistake(f"{path}: nothing lies under {'.'.join(steps[:depth])} = {at!r}")
        if step == "kind" and depth:
            raise Mistake(f"{path}: a kind comes with its own fields; write {'.'.join(steps[:depth])} = {value!r}")
        if depth == len(steps) - 1:
            at[key] = value.as_json() if isinstance(value, Spec) else value
        else:
            at[key], cls = _opened(at.get(key) if isinstance(at, dict) else at[key], cls)
            at = at[key]


def _meant(spec: Spec, steps: list[str], cls: type[Spec]) -> str:
    """The few paths of a spec that end in these steps; else the nearest field of the class."""
    found = [path for path in spec.flat() if path.endswith(f".{'.'.join(steps)}")]
    return f" Did you mean {' or '.join(found)}?" if 0 < len(found) <= 3 else closest(steps[0], cls.model_fields)
