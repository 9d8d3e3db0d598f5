"""Constraints: what holds of a run spec that is worth a trial, as a user's functions by name."""

import functools
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from labkit.search.space import digest
from labkit.spec import Mistake, Spec
from labkit.study.names import brief
from labkit.train.run import RunSpec

Constraints = Mapping[str, Callable[[RunSpec], bool]]

EXAMPLE = "constraints={'few heads': lambda spec: spec.model.attention.n_heads < 9}"


def check_constraints(constraints: Any) -> None:
    """Raise Mistake for what are no functions by name."""
    if not isinstance(constraints, Mapping):
        raise Mistake(f"constraints: expected {{name: function}}, got {brief(constraints)}; write {EXAMPLE}")
    for name, holds in constraints.items():
        if not isinstance(name, str) or not name.strip():
            raise Mistake(f"constraints: {name!r} is no name; write what must hold, as in {EXAMPLE}")
        if not callable(holds):
            raise Mistake(f"constraints: {name!r}: expected a function of the run spec; write {EXAMPLE}")


def broken(constraints: Constraints, spec: RunSpec) -> str:
    """Why a spec is not worth a trial: the first constraint that does not hold, or cannot be told; empty for none."""
    for name, holds in constraints.items():
        try:
            told: Any = holds(spec)
        except Exception as error:  # of the user's own function
            return f"the constraint {name!r} raised {type(error).__name__}: {error}"
        if type(told).__name__ not in ("bool", "bool_"):  # NumPy's own as well
            return f"the constraint {name!r} gives {brief(told)}, neither True nor False"
        if not told:
            return f"the constraint {name!r} does not hold"
    return ""


def signature(constraints: Constraints) -> list[list[str]]:
    """Name and digest of what each says: its code, and the values outside it that it reads."""
    return [[name, digest(_said(constraints[name], ()))] for name in sorted(constraints)]


def _said(value: Any, within: tuple[Any, ...]) -> Any:
    """A value as JSON that changes when what it does changes."""
    if any(value is one for one in within):
        return "itself"
    parts = next((take(value) for kind, take in PARTS if isinstance(value, kind)), None)
    return _name(value) if parts is None else [_said(part, (*within, value)) for part in parts]


def _function(function: types.FunctionType) -> list[Any] | None:
    """What a function of the user's project says and reads; none for a library's."""
    package, code = function.__module__.partition(".")[0], function.__code__
    if package == "labkit" or package in sys.stdlib_module_names or "site-packages" in code.co_filename:
        return None
    outside = {name: function.__globals__.get(name) for name in sorted(_names(code))}
    closed = [cell.cell_contents for cell in function.__closure__ or ()]
    return [code, function.__defaults__, function.__kwdefaults__, closed, outside]


def _names(code: types.CodeType) -> set[str]:
    """What a function reads by name, the functions in it as well."""
    return set(code.co_names).union(*(_names(one) for one in code.co_consts if isinstance(one, types.CodeType)))


def _object(value: Any) -> list[Any]:
    """An object of the user's own that is called."""
    return [type(value).__name__, getattr(value, "__dict__", {}), type(value).__call__]


def _name(value: Any) -> str:
    plain = value is None or isinstance(value, bool | int | float | str | bytes)
    return repr(value) if plain else getattr(value, "__qualname__", getattr(value, "__name__", type(value).__name__))


PARTS: list[tuple[Any, Callable[[Any], list[Any] | None]]] = [
    (types.FunctionType, _function),
    (types.CodeType, lambda code: [code.co_code, code.co_names, code.co_consts]),
    (types.MethodType, lambda method: [method.__func__, method.__self__]),
    (functools.partial, lambda partial: [partial.func, partial.args, partial.keywords]),
    (type | types.ModuleType | types.BuiltinFunctionType, lambda _: None),
    (Spec, lambda spec: [spec.fingerprint]),
    (Mapping, lambda mapping: list(mapping.items())),
    ((set, frozenset), lambda values: sorted(map(repr, values))),
    ((list, tuple), list),
    (Callable, _object),
]
"""Type -> what a value of it is made of; none: what its name says."""
