"""Arms that are compared can be told apart."""

from labkit.tracking.mlflow.colors import PALETTE, TAGS, group_color, groups


def test_the_colour_is_the_one_that_the_ui_showed() -> None:
    shown = {"baseline (theta=10000)": "#04867d", "theta=1000": "#2272b4", "theta=100000": "#115026"}
    assert {name: group_color("variant", name) for name in shown} == shown


def test_arms_are_grouped_by_variant_where_the_colours_differ() -> None:
    assert groups(["baseline", "theta=1000"]) == ("variant", ["baseline", "theta=1000"])


def test_arms_whose_names_would_share_a_colour_are_numbered() -> None:
    names = ["theta=100000", "theta=500000"]
    assert group_color("variant", names[0]) == group_color("variant", names[1])
    tag, values = groups(names)
    assert all(value.startswith(name) for value, name in zip(values, names, strict=True))
    assert group_color(tag, values[0]) != group_color(tag, values[1])


def test_another_tag_is_tried_before_another_name() -> None:
    names = ["baseline", "gelu", "relu", "swiglu"]
    assert groups(names) == ("arm", names)


def test_more_arms_than_colours_are_grouped_all_the_same() -> None:
    tag, values = groups([f"arm {k}" for k in range(len(PALETTE) + 1)])
    assert tag in TAGS
    assert len(set(values)) == len(PALETTE) + 1
