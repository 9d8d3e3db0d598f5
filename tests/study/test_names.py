"""Names that read well and are safe."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.components.norm import Rms
from labkit.study.names import exact, is_safe, named, safe, tails


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e3, "1000"),
        (5e5, "500000"),
        (1e7, "1e07"),
        (1e-5, "1e-05"),
        (0.1234567, "0.1234567"),
        (3, "3"),
        (True, "True"),
        ((2, 4), "2,4"),
        (Rms(eps=1e-5), "rms(eps=1e-05)"),
        (({"attention": {"window": 8}}, {}), "{'attention': {'window': 8}},{}"),
    ],
)
def test_values_are_short(value: object, text: str) -> None:
    assert exact(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_digit_is_lost(value: float) -> None:
    assert float(exact(value)) == value


def test_paths_are_named_by_their_shortest_endings() -> None:
    assert tails(["model.position.theta", "optimizer.lr"]) == {"model.position.theta": "theta", "optimizer.lr": "lr"}
    assert tails(["a.x.eps", "b.y.eps"]) == {"a.x.eps": "x.eps", "b.y.eps": "y.eps"}
    assert tails(["clip", "model.clip"]) == {"clip": "clip", "model.clip": "model.clip"}


def test_several_changes_make_one_name() -> None:
    assert named({"model.position.theta": 1e3, "model.norm": Rms()}) == "theta=1000,norm=rms"


@given(st.text(max_size=200))
def test_a_safe_name_is_safe_and_stays_itself(text: str) -> None:
    name = safe(text)
    assert is_safe(name)
    assert "/" not in name
    assert len(name) <= 80
    assert safe(name) == name


def test_what_was_cut_still_tells_names_apart() -> None:
    assert safe("path=/a/b c") != safe("path=/a/b-c")
    assert safe("x" * 100) != safe("x" * 101)
