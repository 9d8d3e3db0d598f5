"""What the variants were matched on, in a line."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from labkit.report.formats import signed_percent

WORDS = {"params": "parameters", "non_embedding": "parameters without embeddings", "active_params": "active parameters"}
"""What is matched, where its name is not a word."""

EXACT = 1e-9
"""In per cent: nearer than this is equal."""


def summary(matches: Sequence[Mapping[str, Any]]) -> str:
    """``params within 0.12 %, worth < .0006 nats``: of the variant that is furthest off; empty without any."""
    if not matches:
        return ""
    on = matches[0]["on"]
    off, nats = (max(abs(match[key]) for match in matches) for key in ("residual_percent", "residual_nats"))
    if off < EXACT:
        return f"{on} equal"
    worth = f"{_upper(nats, strictly=True):g}".removeprefix("0")
    return f"{on} within {_upper(off, digits=2):g} %, worth < {worth} nats"


def law(matches: Sequence[Mapping[str, Any]]) -> str:
    """The scaling law that says what a residual is worth; empty where there is no residual."""
    return next((match["law"] for match in matches if abs(match["residual_percent"]) >= EXACT), "")


def moved(match: Mapping[str, Any] | None) -> str:
    """What was changed of a variant to match it, and how far off it was; empty where nothing was."""
    if not match or not match["path"]:
        return ""
    was = f"{signed_percent(match['written']['residual_percent'])} {WORDS.get(match['on'], 'training FLOPs')}"
    return f"{match['path']} {match['before']} → {match['after']} to match; as written {was}"


def _upper(x: float, *, digits: int = 1, strictly: bool = False) -> float:
    """The next number of so many digits that is not below, or is above."""
    unit = 10.0 ** (math.floor(math.log10(x)) + 1 - digits) if x > 0 else 1e-9
    units = math.floor(x / unit + 1e-9) + 1 if strictly else math.ceil(x / unit - 1e-9)
    return float(f"{units * unit:.{digits}g}")
