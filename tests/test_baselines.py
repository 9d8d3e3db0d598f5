"""The shipped baselines are what they say they are."""

import pytest

from experiments import baselines
from labkit.model import costs


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("nano", 167_424),
        ("mini", 10_244_160),
        # What the code that the project grew from counts at these sizes, the tied matrix once.
        ("tiny", 12_913_920),
        ("small", 100_092_672),
        ("medium", 213_156_864),
        ("large", 552_531_456),
        ("1B", 1_038_682_112),
    ],
)
def test_a_baseline_has_its_number_of_parameters(name: str, params: int) -> None:
    spec = vars(baselines)[name]
    assert costs(spec.model, spec.tokenizer.size(None)).params == params


@pytest.mark.parametrize("name", ["tiny", "small", "medium", "large", "1B"])
def test_the_large_ones_have_about_twenty_tokens_a_parameter(name: str) -> None:
    spec = vars(baselines)[name]
    size = spec.tokenizer.size(None)
    assert spec.tokens(size) / costs(spec.model, size).params == pytest.approx(20, rel=0.01)
