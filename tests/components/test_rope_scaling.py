"""Scaled rotary frequencies against those that transformers 5.24 computes, and what each must leave alone."""

import math

import pytest
import torch

from labkit.components.place import Place
from labkit.components.position import Rope
from labkit.components.rope_scaling import (
    LinearScaling,
    Llama3Scaling,
    NoScaling,
    NtkScaling,
    RopeScaling,
    YarnScaling,
    unscaled,
)

YARN = [1.0, 0.31622776, 0.1, 0.025693506, 0.0062499996, 0.0013834966, 0.00025, 7.905695e-05]
YARN_OTHER = [1.0, 0.17782794, 0.03162278, 0.0021367006, 0.000125, 2.2228493e-05, 3.9528468e-06, 7.0292668e-07]
LLAMA3 = [1.0, 0.19392276, 0.037606031, 0.0072926651, 0.00052484602, 3.4281024e-05, 6.6478697e-06, 1.2891732e-06]
LLAMA3_SHORT = [1.0, 0.25464791, 0.02546479, 0.0079056947, 0.0025, 0.00079056947, 0.00025, 7.9056947e-05]


@pytest.mark.parametrize(
    ("spec", "theta", "context", "expected"),
    [
        (YarnScaling(factor=4), 1e4, 2048, YARN),
        (YarnScaling(factor=4, original=2048), 1e4, 8192, YARN),
        (YarnScaling(factor=8, original=4096, truncate=False, beta_fast=16, beta_slow=2), 1e6, 1, YARN_OTHER),
        (Llama3Scaling(factor=8, original=8192), 5e5, 131072, LLAMA3),
        (Llama3Scaling(factor=4), 1e4, 64, LLAMA3_SHORT),
    ],
)
def test_the_frequencies_are_those_of_transformers(
    spec: RopeScaling, theta: float, context: int, expected: list[float]
) -> None:
    wanted = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(spec.frequencies(theta, 16, context), wanted, rtol=1e-6, atol=0)


def test_yarn_raises_the_scores_as_transformers_does() -> None:
    assert YarnScaling(factor=4).amplitude == pytest.approx(1.138629436111989, abs=1e-12)
    assert YarnScaling(factor=4, attention_factor=1.5).amplitude == 1.5
    x = torch.randn(1, 3, 1, 16, dtype=torch.float64)
    turned = Rope(scaling=YarnScaling(factor=4)).rotary(16, Place(0, 1, 8))(x)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1) * 1.138629436111989)


def test_linear_scaling_squeezes_positions() -> None:
    x = torch.randn(1, 1, 1, 16, dtype=torch.float64).expand(1, 32, 1, 16)
    plain = Rope().rotary(16, Place(0, 1, 8))(x)
    squeezed = Rope(scaling=LinearScaling(factor=4)).rotary(16, Place(0, 1, 8))(x)
    torch.testing.assert_close(squeezed[:, ::4], plain[:, :8])


def test_ntk_leaves_the_fastest_pair_and_squeezes_the_slowest_by_the_whole_factor() -> None:
    ratio = NtkScaling(factor=4).frequencies(1e4, 16, 8) / unscaled(1e4, 16)
    torch.testing.assert_close(ratio, 4.0 ** -(torch.arange(8, dtype=torch.float64) / 7))


@pytest.mark.parametrize("scaling", [LinearScaling, NtkScaling, YarnScaling, Llama3Scaling])
def test_a_factor_of_one_changes_nothing(scaling: type) -> None:
    spec = scaling(factor=1)
    torch.testing.assert_close(spec.frequencies(1e4, 16, 64), NoScaling().frequencies(1e4, 16, 64))
    assert spec.amplitude == 1.0


def test_a_context_too_short_for_any_pair_to_turn_is_squeezed_whole() -> None:
    frequencies = YarnScaling(factor=4).frequencies(1e4, 16, 4)
    torch.testing.assert_close(frequencies[1:], unscaled(1e4, 16)[1:] / 4)
    assert math.isfinite(frequencies[0])


@pytest.mark.parametrize(
    ("rope", "head_dim", "words"),
    [
        (Rope(scaling=NtkScaling(factor=2)), 2, "at least 4 rotated features, but there are 2"),
        (Rope(scaling=YarnScaling(factor=2), theta=1), 8, "theta above 1, but theta is 1"),
        (Rope(scaling=YarnScaling(factor=2, beta_fast=1, beta_slow=2)), 8, "beta_fast 1 must be above scaling.beta_s"),
        (Rope(scaling=Llama3Scaling(factor=2, low_frequency=4)), 8, "high_frequency 4 must be above scaling.low_fre"),
    ],
)
def test_scalings_that_cannot_work_are_named_with_both_numbers(rope: Rope, head_dim: int, words: str) -> None:
    assert words in (rope.fault(head_dim) or "")
