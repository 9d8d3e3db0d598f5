"""Faults: what a message advises, the field takes."""

from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError

from labkit.faults import explain
from labkit.spec import Choice, Count, Number, Spec, Words

Positive = Annotated[Number, Field(gt=0)]


class Spring(Choice):
    """A family of which one variant takes 0 where the other does not."""


class Coil(Spring):
    """Steel."""

    kind: Literal["coil"] = "coil"
    rate: Positive = 1.0
    preload: Number = 0.0


class Air(Spring):
    """Air."""

    kind: Literal["air"] = "air"
    rate: Number = 1.0


class Fork(Spec):
    """What holds one."""

    spring: Spring = Coil()
    springs: tuple[Spring, ...] = ()
    travel: tuple[Positive, Annotated[Number, Field(ge=0)]] = (1.0, 0.0)
    limit: Positive | None = None
    clicks: Count | None = None
    locks: bool | None = None
    mass: Positive = 1.0
    name: Words | None = None


HELD = "is nothing that fp32 holds; write what is between 1.2e-38 and 3.4e+38 in size"
HELD_OR_ZERO = HELD.replace("write", "write 0, or")
NULL = "for none write null, in Python None"


def said(changes: dict[str, object]) -> str:
    with pytest.raises(ValidationError) as raised:
        Fork().patched(changes)
    return explain(raised.value, Fork)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mass": 1e-45}, f"mass: 1e-45 {HELD}"),
        ({"limit": 1e-38}, f"limit: 1e-38 {HELD}"),
        ({"limit": 1e39}, f"limit: 1e+39 {HELD}"),
        ({"travel": [1e-45, 0]}, f"travel.0: 1e-45 {HELD}"),
        ({"travel": [1, 1e-45]}, f"travel.1: 1e-45 {HELD_OR_ZERO}"),
        ({"spring.preload": 1e-45}, f"spring.preload: 1e-45 {HELD_OR_ZERO}"),
        ({"spring.rate": 1e-45}, f"spring.rate: 1e-45 {HELD}"),
        ({"springs": [{"kind": "coil", "preload": -1e-45}]}, f"springs.0.preload: -1e-45 {HELD_OR_ZERO}"),
    ],
)
def test_zero_is_advised_only_where_it_is_taken(changes: dict[str, object], message: str) -> None:
    assert said(changes) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"limit": "none"}, f"limit: Input should be a valid number (got 'none'); {NULL}"),
        ({"limit": False}, f"limit: Input should be a valid number (got False); {NULL}"),
        ({"clicks": "none"}, f"clicks: Input should be a valid integer (got 'none'); {NULL}"),
        ({"locks": "none"}, f"locks: Input should be a valid boolean (got 'none'); {NULL}"),
        ({"limit": -1}, "limit: Input should be greater than 0 (got -1)"),
        ({"mass": "none"}, "mass: Input should be a valid number (got 'none')"),
    ],
)
def test_a_text_where_a_value_may_be_none_is_answered_with_null(changes: dict[str, object], message: str) -> None:
    assert said(changes) == message


def test_a_field_of_an_entry_is_told_by_its_nearest_name() -> None:
    message = said({"springs": [{"kind": "coil", "preloat": 1}]})
    assert message == "springs.0.preloat: no such field. Did you mean 'preload'?"
