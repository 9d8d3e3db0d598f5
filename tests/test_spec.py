"""Specs: what is accepted, what is refused, and what a fingerprint depends on."""

import os
import re
import subprocess
import sys
from typing import Literal

import pytest
from pydantic import ValidationError
from pydantic_core import PydanticUndefined

from labkit.faults import explain
from labkit.model import ModelSpec
from labkit.spec import Choice, Count, Mistake, Number, Spec


class Wheel(Choice):
    """A family for these tests."""


class Spoked(Wheel):
    """With spokes."""

    kind: Literal["spoked"] = "spoked"
    spokes: Count = 32
    tension: Number = 1.0


class Disc(Wheel):
    """Without."""

    kind: Literal["disc"] = "disc"
    thickness: Number


class Tyre(Choice):
    """A family with a field that its variants share, each with a default of its own."""


class Racing(Tyre):
    """Narrow."""

    kind: Literal["racing"] = "racing"
    width: Count = 23


class Winter(Tyre):
    """Wide."""

    kind: Literal["winter"] = "winter"
    width: Count = 40
    studs: Count = 200


class Hub(Spec):
    """Something that holds one of them."""

    tyre: Tyre


class Frame(Spec):
    """A nested spec."""

    wheel: Wheel = Spoked()
    spare: Wheel | None = None


class Bicycle(Spec):
    """A spec with everything in it."""

    frame: Frame
    wheels: tuple[Wheel, ...] = ()
    load: Number | None = None


BICYCLE = Bicycle(frame=Frame(wheel="spoked"), wheels=("spoked", Disc(thickness=2)))


def test_a_short_form_names_a_variant_with_its_defaults() -> None:
    assert Frame(wheel="spoked").wheel == Spoked()


def test_a_spec_survives_json() -> None:
    assert Bicycle.from_json(BICYCLE.as_json()) == BICYCLE


def test_a_variant_defined_after_the_parent_is_accepted_and_stands_in_its_schema() -> None:
    class Solid(Wheel):
        kind: Literal["solid"] = "solid"

    try:
        assert Frame(wheel="solid").wheel == Solid()
        assert "solid" in str(Frame.model_json_schema())
    finally:
        del Wheel.variants["solid"]


def test_patches_that_need_each_other_come_together() -> None:
    patched = BICYCLE.patched({"frame.wheel.thickness": 3, "frame.wheel": {"kind": "disc"}, "wheels.0.spokes": 16})
    assert patched.frame.wheel == Disc(thickness=3)
    assert patched.wheels == (Spoked(spokes=16), Disc(thickness=2))


def test_a_patch_opens_a_short_form() -> None:
    changed = BICYCLE.patched({"frame.wheel": "spoked", "frame.wheel.spokes": 8})
    assert changed.frame.wheel == Spoked(spokes=8)


def test_equal_specs_have_equal_fingerprints_in_every_process() -> None:
    """In another one, where strings have other hashes, and in this one."""
    made = (
        "ModelSpec(d_model=8, n_layers=1, context=4, norm='rms', residual='pre', attention=dict(kind='mha', "
        "n_heads=2), feedforward='swiglu', position='rope', head='tied', init='normal').fingerprint"
    )
    salt = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    command = [sys.executable, "-c", f"from labkit.model import ModelSpec\nprint({made})"]
    there = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": salt, "PATH": ""}
    ).stdout.strip()
    assert there == eval(made, {"ModelSpec": ModelSpec})
    assert len(there) == 16


def test_equal_numbers_have_equal_fingerprints() -> None:
    assert Spoked(tension=2).fingerprint == Spoked(tension=2.0).fingerprint
    assert Spoked(tension=-0.0).fingerprint == Spoked(tension=0).fingerprint


def test_a_new_field_with_a_default_leaves_old_fingerprints_as_they_were() -> None:
    class Before(Spec):
        size: Count

    class After(Spec):
        size: Count
        wheel: Wheel = Spoked()
        load: Number | None = None

    assert Before(size=3).fingerprint == After(size=3).fingerprint != After(size=3, load=1).fingerprint


def test_differences_name_places_and_both_values() -> None:
    other = BICYCLE.patched({"frame.wheel": {"kind": "disc", "thickness": 3}, "wheels.0.spokes": 16, "load": 4})
    assert BICYCLE.differences(other) == {
        "frame.wheel": ("spoked", "disc(thickness=3)"),
        "wheels": ("(spoked, disc(thickness=2))", "(spoked(spokes=16), disc(thickness=2))"),
        "load": ("None", "4"),
    }


def test_a_component_that_takes_the_place_of_another_shows_what_it_sets_otherwise() -> None:
    """Swapping adamw(lr=0.006) for muon takes muon's own lr: that must not go unseen."""
    tuned, plain = Hub(tyre=Racing(width=25)), Hub(tyre="winter")
    assert tuned.differences(plain) == {"tyre": ("racing(width=25)", "winter(width=40)")}
    assert plain.differences(tuned) == {"tyre": ("winter(width=40)", "racing(width=25)")}
    studded = Hub(tyre=Winter(studs=100))
    assert studded.differences(tuned) == {"tyre": ("winter(width=40, studs=100)", "racing(width=25)")}
    assert Hub(tyre=Racing(width=40)).differences(plain) == {"tyre": ("racing(width=40)", "winter")}
    assert Hub(tyre="racing").differences(plain) == {"tyre": ("racing", "winter")}


def test_flat_has_a_line_for_every_leaf() -> None:
    flat = BICYCLE.flat()
    assert flat["frame.wheel"] == "spoked"
    assert flat["frame.wheel.spokes"] == 32
    assert flat["wheels.1.thickness"] == 2.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frame.whel": "spoked"}, "frame.whel: Frame has no field 'whel'. Did you mean 'wheel'?"),
        ({"frame.wheel.spoke": 1}, "frame.wheel.spoke: spoked has no field 'spoke'. Did you mean 'spokes'?"),
        ({"wheel": "disc"}, "wheel: Bicycle has no field 'wheel'. Did you mean frame.wheel?"),
        ({"wheel.tension": 2}, "wheel.tension: Bicycle has no field 'wheel'. Did you mean frame.wheel.tension?"),
        ({"frame.thickness": 1}, "frame.thickness: Frame has no field 'thickness'. Did you mean wheels.1.thickness?"),
        ({"kind": "disc"}, "kind: Bicycle has no field 'kind'. Choose from: frame, load, wheels."),
        ({"wheels.5": "spoked"}, "wheels.5: '5' is no index into 2 entries"),
        ({"load.x": 1}, "load.x: nothing lies under load = None"),
        ({"wheels.²": "spoked"}, "wheels.²: '²' is no index into 2 entries"),
        ({"wheels.٠": "spoked"}, "wheels.٠: '٠' is no index into 2 entries"),
        ({"wheels.-1": "spoked"}, "wheels.-1: '-1' is no index into 2 entries"),
        ({f"wheels.{'9' * 5000}": "spoked"}, f"wheels.{'9' * 5000}: '{'9' * 5000}' is no index into 2 entries"),
        ({"": 1}, "{'': 1} says no change; write each path with its value: {'frame': …}"),
        ({"frame.": 1}, "frame.: Frame has no field ''. Choose from: spare, wheel."),
        ({5: 1}, "{5: 1} says no change; write each path with its value: {'frame': …}"),
        (5, "5 says no change; write each path with its value: {'frame': …}"),
    ],
)
def test_a_wrong_path_says_what_was_meant(changes: dict[str, object], message: str) -> None:
    with pytest.raises(Mistake) as raised:
        BICYCLE.patched(changes)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frame.wheel": "spoken"}, "frame.wheel: unknown Wheel kind 'spoken'. Did you mean 'spoked'?"),
        ({"frame.wheel": {"kind": ["spoked"]}}, "frame.wheel: unknown Wheel kind ['spoked']. Did you mean 'spoked'?"),
        ({"frame.wheel": {"kind": {}}}, "frame.wheel: unknown Wheel kind {}. Choose from: disc, spoked."),
        ({"frame.wheel": {"kind": None}}, "frame.wheel: unknown Wheel kind None."),
        ({"frame.wheel.spokes": 2**63}, "frame.wheel.spokes: Input should be less than 9223372036854775808"),
        ({"frame.wheel": 3}, "frame.wheel: expected a Wheel: a kind's name"),
        ({"frame.wheel.spokes": "many"}, "frame.wheel.spokes: Input should be a valid integer (got 'many')"),
        ({"frame.wheel.spokes": True}, "frame.wheel.spokes: Input should be a valid integer (got True)"),
        ({"frame.wheel.spokes": 0}, "frame.wheel.spokes: Input should be greater than 0 (got 0)"),
        ({"frame.wheel": {"kind": "disc"}}, "frame.wheel.thickness: this field is required."),
        ({"frame.wheel": {"kind": "spoked", "spoke": 1}}, "frame.wheel.spoke: no such field. Did you mean 'spokes'?"),
        ({"load": float("nan")}, "load: Input should be a finite number"),
        ({"load": 1e39}, "load: 1e+39 is nothing that fp32 holds; write 0, or what is between 1.2e-38 and 3.4e+38"),
        ({"load": -1e300}, "load: -1e+300 is nothing that fp32 holds"),
        ({"load": 5e-324}, "load: 4.94066e-324 is nothing that fp32 holds"),
        ({"load": "4"}, "load: Input should be a valid number (got '4')"),
    ],
)
def test_a_wrong_value_names_the_place_the_value_and_the_remedy(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        BICYCLE.patched(changes)
    assert explain(raised.value, Bicycle).startswith(message)


def test_what_cannot_be_written_as_json_is_refused() -> None:
    with pytest.raises(Mistake, match="a spec holds numbers, strings, booleans, tuples and specs"):
        BICYCLE.patched({"load": object()})


def test_a_variant_without_a_kind_is_refused_with_the_line_to_write() -> None:
    with pytest.raises(TypeError, match=r'write  kind: Literal\["bare"\] = "bare"'):
        type("Bare", (Wheel,), {"__module__": __name__})


@pytest.mark.parametrize(
    ("annotation", "default", "line"),
    [
        (Literal["foo"], "bar", 'kind: Literal["bar"] = "bar"'),
        (Literal["one", "two"], "one", 'kind: Literal["one"] = "one"'),
        (str, "plain", 'kind: Literal["plain"] = "plain"'),
        (int, 3, 'kind: Literal["bare"] = "bare"'),
        (Literal["bare"], PydanticUndefined, 'kind: Literal["bare"] = "bare"'),
    ],
)
def test_a_kind_that_is_not_one_name_is_refused_with_the_line_to_write(
    annotation: object, default: object, line: str
) -> None:
    body = {"__module__": __name__, "__annotations__": {"kind": annotation}, "kind": default}
    with pytest.raises(TypeError, match=f"Bare needs a kind of one name: write  {re.escape(line)}$"):
        type("Bare", (Wheel,), body)
    assert set(Wheel.variants) == {"spoked", "disc"}


def test_a_path_under_a_kind_that_is_no_name_is_refused() -> None:
    with pytest.raises(Mistake, match=r"frame\.wheel\.spokes: "):
        BICYCLE.patched({"frame.wheel": {"kind": ["spoked"]}, "frame.wheel.spokes": 3})


def test_a_kind_that_is_taken_is_refused() -> None:
    with pytest.raises(TypeError, match="kind 'disc' is taken by"):

        class Other(Wheel):
            kind: Literal["disc"] = "disc"


def test_a_spec_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValidationError):
        BICYCLE.load = 3.0  # type: ignore[misc]


def test_a_number_that_is_not_finite_is_refused_also_where_any_float_may_stand() -> None:
    class Loose(Spec):
        f: float

    with pytest.raises(ValidationError, match="finite"):
        Loose(f=float("inf"))
