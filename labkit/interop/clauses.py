"""What one or a few fields of a config.json say of a model spec, in both directions.

Reading gives paths of a ModelSpec with values; writing looks at the layers' specs as `resolved` makes them. What a
clause cannot write it leaves out: reading the config back then shows how it differs from what was asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.model import ModelSpec
from labkit.spec import LARGEST, Mistake

Paths = dict[str, Any]
Layers = Sequence[ModelSpec]
MOST = 2**24
"""What nothing in a config counts more of."""
REQUIRED: Any = object()
"""The default of a field that has none."""
MISSING: Any = object()
"""The value of a path that a spec does not have."""


class Config:
    """The fields of a config.json, with an architecture's defaults for those left out."""

    def __init__(self, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        self.given, self.defaults = given, defaults

    def __getitem__(self, name: str) -> Any:
        value = self.given[name] if name in self.given else self.defaults[name]
        if value is REQUIRED:
            raise Mistake(f"config.json: {name} is missing; a model cannot be told without it")
        return value

    def size(self, name: str) -> int:
        """A field that counts something. Raises Mistake for what is no count."""
        return whole(f"config.json: {name}", self[name])

    def size_if_any(self, name: str) -> int | None:
        """The same of a field that may be null."""
        return None if self[name] is None else self.size(name)

    def object(self, name: str) -> dict[str, Any]:
        """A field that holds fields of its own; null holds none. Raises Mistake for anything else."""
        value = self[name]
        if not isinstance(value, Mapping | None):
            raise Mistake(f"config.json: {name} = {value!r} is no object; write null if there is nothing to say")
        return dict(value or {})


def whole(name: str, value: Any) -> int:
    """A count. Raises Mistake for anything else."""
    if type(value) is not int or not 0 < value <= MOST:
        raise Mistake(f"{name} = {value!r} is no count; write a whole number from 1 to {MOST:,}")
    return value


def positive(name: str, value: Any) -> float:
    """A number above zero. Raises Mistake for anything else."""
    if type(value) not in (int, float) or not 0 < value <= LARGEST:
        raise Mistake(f"config.json: {name} = {value!r} is no number above 0; write one")
    return float(value)


class Clause:
    """Some fields of a config, and some paths of a spec."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The config's fields that this clause accounts for, with their defaults."""
        return {}

    def read(self, config: Config) -> Paths:
        """What the config says of a spec. Raises Mistake for a value that labkit has no counterpart to."""
        return {}

    def write(self, layers: Layers) -> dict[str, Any]:
        """The config's fields for these layers, as far as they can be told."""
        return {}


@dataclass(frozen=True)
class Same(Clause):
    """A number or a truth that goes by another name; ``also`` are further paths with the same value."""

    field: str
    path: str
    default: Any = REQUIRED
    also: tuple[str, ...] = ()

    @property
    def fields(self) -> Mapping[str, Any]:
        return {self.field: self.default}

    def read(self, config: Config) -> Paths:
        return dict.fromkeys((self.path, *self.also), config[self.field])

    def write(self, layers: Layers) -> dict[str, Any]:
        value = at(layers[0], self.path)
        return {} if value is MISSING else {self.field: value}


@dataclass(frozen=True)
class Always(Clause):
    """What the architecture is, whatever its config says."""

    paths: Paths

    def read(self, config: Config) -> Paths:
        return self.paths


@dataclass(frozen=True)
class Only(Clause):
    """A field that labkit knows one value of; others change the model in a way that it has no component for."""

    field: str
    value: Any
    default: Any = MISSING
    """What transformers takes where the field is left out; the one value unless given."""

    @property
    def fields(self) -> Mapping[str, Any]:
        return {self.field: self.value if self.default is MISSING else self.default}

    def read(self, config: Config) -> Paths:
        value = config[self.field]
        if value != self.value and (value or self.value):  # null says no as false does
            raise Mistake(
                f"config.json: {self.field} = {value!r} has no counterpart in labkit, only {self.value!r} has"
            )
        return {}

    def write(self, layers: Layers) -> dict[str, Any]:
        return {} if self.default is MISSING else {self.field: self.value}


@dataclass(frozen=True)
class Unread(Clause):
    """A field that lies in an architecture's files, but that transformers does not look at there."""

    field: str

    @property
    def fields(self) -> Mapping[str, Any]:
        return {self.field: None}


@dataclass(frozen=True)
class Inner(Clause):
    """The hidden features of GPT's feed-forward; four times the width where it is null."""

    field: str = "n_inner"
    width: str = "n_embd"

    @property
    def fields(self) -> Mapping[str, Any]:
        return {self.field: None}

    def read(self, config: Config) -> Paths:
        return {"feedforward.d_ff": config.size_if_any(self.field) or 4 * config.size(self.width)}

    def write(self, layers: Layers) -> dict[str, Any]:
        d_ff = at(layers[0], "feedforward.d_ff")
        return {} if d_ff is MISSING else {self.field: d_ff}


@dataclass(frozen=True)
class OneOf(Clause):
    """A field whose values stand for variants; of several values for one variant, the first is written."""

    field: str
    values: Mapping[Any, Paths]
    default: Any = REQUIRED

    @property
    def fields(self) -> Mapping[str, Any]:
        return {self.field: self.default}

    def read(self, config: Config) -> Paths:
        value = config[self.field]
        if isinstance(value, str | bool) and value in self.values:
            return self.values[value]
        known = ", ".join(repr(key) for key in self.values)
        raise Mistake(f"config.json: {self.field} = {value!r} has no counterpart in labkit; these have: {known}")

    def write(self, layers: Layers) -> dict[str, Any]:
        for value, paths in self.values.items():
            if all(at(layers[0], path) == wanted for path, wanted in paths.items()):
                return {self.field: value}
        return {}


def at(spec: Any, path: str) -> Any:
    """The value at a path, or MISSING."""
    for step in path.split("."):
        spec = getattr(spec, step, MISSING)
    return spec


TIED: Mapping[Any, Paths] = {True: {"head.kind": "tied"}, False: {"head.kind": "untied"}}

ERF, TANH = {"feedforward.approximate": "erf"}, {"feedforward.approximate": "tanh"}

GATED: Mapping[Any, Paths] = {
    "silu": {"feedforward.kind": "swiglu"},
    "swish": {"feedforward.kind": "swiglu"},
    "gelu": {"feedforward.kind": "geglu", **ERF},
    "gelu_pytorch_tanh": {"feedforward.kind": "geglu", **TANH},
    "gelu_new": {"feedforward.kind": "geglu", **TANH},
    "gelu_fast": {"feedforward.kind": "geglu", **TANH},
    "relu": {"feedforward.kind": "reglu"},
    "sigmoid": {"feedforward.kind": "glu"},
    "linear": {"feedforward.kind": "bilinear"},
}
"""Activations of the gate."""

PLAIN: Mapping[Any, Paths] = {
    "gelu_new": {"feedforward.kind": "gelu", **TANH},
    "gelu_pytorch_tanh": {"feedforward.kind": "gelu", **TANH},
    "gelu_fast": {"feedforward.kind": "gelu", **TANH},
    "gelu": {"feedforward.kind": "gelu", **ERF},
    "relu": {"feedforward.kind": "relu"},
    "relu2": {"feedforward.kind": "relu2"},
    "silu": {"feedforward.kind": "silu"},
    "swish": {"feedforward.kind": "silu"},
}
"""Activations between two projections."""
