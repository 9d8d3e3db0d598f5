"""What stands under the table on a terminal."""

from labkit.study.results import lines


def test_what_is_short_shares_a_line() -> None:
    footing = [("matched", "params equal"), ("confounds", "none"), ("diverged", "0 of 25 runs"), ("epochs", "0.8")]
    footing += [("scope", "10M params")]
    assert lines(footing) == [
        "matched   params equal",
        "confounds none     diverged 0 of 25 runs     epochs 0.8",
        "scope     10M params",
    ]


def test_confounds_that_are_many_have_a_line_of_their_own() -> None:
    footing = [("confounds", "device, kernels and mode"), ("diverged", "0 of 25 runs"), ("epochs", "0.8")]
    assert lines(footing) == ["confounds device, kernels and mode", "diverged  0 of 25 runs", "epochs    0.8"]
