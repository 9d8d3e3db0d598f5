"""Names for changes that read well and are safe as folders, run names and words of a shell."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from labkit.spec import Spec, shown

LONGEST = 80


def at(spec: Spec, path: str) -> Any:
    """The value at a dotted path; numbers step into tuples. Raises LookupError where the path does not exist."""
    value: Any = spec
    for step in path.split("."):
        if isinstance(value, tuple):
            value = value[int(step)] if step.isdigit() else _nothing(path)
        elif isinstance(value, Spec) and step in type(value).model_fields:
            value = getattr(value, step)
        else:
            _nothing(path)
    return value


def exact(value: Any) -> str:
    """A value as a short text that loses no digit: 500000, 1e-05, 0.1234567, rms(eps=1e-05)."""
    if isinstance(value, float):
        short = f"{value:.15g}" if value.is_integer() and abs(value) < 1e7 else f"{value:g}"
        return (short if float(short) == value else repr(value)).replace("e+", "e")
    if isinstance(value, tuple):
        return ",".join(exact(item) for item in value) or "none"
    if isinstance(value, dict):
        return str(value)  # folders on disk are named so
    return shown(value)


def safe(text: str) -> str:
    """The text with what a folder, a shell or MLflow minds taken out: ``rms(eps=1e-05)`` is ``rms-eps=1e-05``."""
    plain = text.replace("(", "-").replace(")", "").replace(", ", ",")
    kept = _kept(plain) or "x"
    if kept == plain and len(kept) <= LONGEST:
        return kept
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{kept[: LONGEST - 9]}-{digest}"


def _kept(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._=,+-]+", "-", text).strip("-.")


def brief(value: Any) -> str:
    """A value as Python writes it, short enough for a message."""
    text = repr(value)
    return text if len(text) <= LONGEST + 2 else f"{text[:40]} … {text[-20:]}"


def is_safe(name: str) -> bool:
    return name == safe(name)


def renamed(name: str) -> str:
    """A safe name that is as near: ``all window`` is ``all-window``."""
    plain = _kept(name[:40])
    return plain if plain and plain not in (name, "baseline") else safe(f"my-{name}"[:40])


def tails(paths: Iterable[str]) -> dict[str, str]:
    """The shortest endings that tell the paths apart: ``model.position.theta`` is ``theta``."""
    whole = list(dict.fromkeys(paths))
    return {path: _tail(path, [other for other in whole if other != path]) for path in whole}


def named(values: Mapping[str, Any]) -> str:
    """``theta=1000,norm=layer``: what stands at the paths, by their shortest endings."""
    short = tails(values)
    return ",".join(f"{short[path]}={exact(value)}" for path, value in values.items())


def _tail(path: str, others: list[str]) -> str:
    steps = path.split(".")
    for length in range(1, len(steps)):
        tail = ".".join(steps[-length:])
        if not any(f".{other}".endswith(f".{tail}") for other in others):
            return tail
    return path


def _nothing(path: str) -> Any:
    raise LookupError(path)
