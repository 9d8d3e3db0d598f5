"""Positions against complex rotation and the published waves, and the property that makes them relative."""

import math

import pytest
import torch

from labkit.components.parameters import logical
from labkit.components.place import Place
from labkit.components.position import Learned, NoPosition, Rope, Sinusoidal

PLACE = Place(0, 1, 12)


def turned_as_complex_numbers(x_BTHD: torch.Tensor, theta: float, layout: str) -> torch.Tensor:
    """Each pair is a complex number, times exp(i · position · theta^(-2i/d))."""
    d, positions = x_BTHD.shape[-1], torch.arange(x_BTHD.shape[1], dtype=torch.float64)
    turn = torch.polar(torch.ones(()).double(), positions[:, None] * theta ** (-torch.arange(0, d, 2).double() / d))
    if layout == "half":
        z = torch.complex(*x_BTHD.chunk(2, -1)) * turn[:, None]
        return torch.cat((z.real, z.imag), -1)
    z = torch.view_as_complex(x_BTHD.unflatten(-1, (-1, 2)).contiguous()) * turn[:, None]
    return torch.view_as_real(z).flatten(-2)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("length", [12, 48])
def test_rope_is_a_complex_rotation_also_beyond_the_training_length(layout: str, length: int) -> None:
    x = torch.randn(2, length, 3, 8, dtype=torch.float64)
    rotary, expected = Rope(theta=500.0, layout=layout).rotary(8, PLACE), turned_as_complex_numbers(x, 500.0, layout)
    torch.testing.assert_close(rotary(x.float()), expected.float(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(rotary(x), expected)
    torch.testing.assert_close(rotary.double()(x), expected)
    torch.testing.assert_close(rotary(x[:, 5:], 5), expected[:, 5:])


def test_a_fraction_turns_only_the_first_features() -> None:
    x = torch.randn(2, 12, 3, 8, dtype=torch.float64)
    out = Rope(fraction=0.5).rotary(8, PLACE)(x)
    torch.testing.assert_close(out[..., 4:], x[..., 4:])
    torch.testing.assert_close(out[..., :4], turned_as_complex_numbers(x[..., :4], 10_000.0, "half"))


def test_products_of_q_and_k_depend_on_the_distance_alone() -> None:
    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    rotary = Rope().rotary(8, PLACE)
    scores = rotary(q.expand(1, 12, 1, 8))[0, :, 0] @ rotary(k.expand(1, 12, 1, 8))[0, :, 0].T
    for distance in range(6):
        diagonal = scores.diagonal(-distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))


def test_learned_positions_add_one_vector_each_and_reach_no_further() -> None:
    module = Learned().build(16, PLACE)
    torch.nn.init.normal_(module.weight)
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(module(x), x + module.weight[:5])
    torch.testing.assert_close(module(x, 7), x + module.weight[7:])
    assert Learned().reach(12) == 12
    assert list(logical(module)) == ["weight"]


@pytest.mark.parametrize("width", [16, 7])
@pytest.mark.parametrize("offset", [0, 10, 1000])
def test_sinusoids_are_those_of_the_paper_and_never_end(width: int, offset: int) -> None:
    added = Sinusoidal().build(width, PLACE).double()(torch.zeros(1, 5, width, dtype=torch.float64), offset)
    for position in range(5):
        for i in range(width):
            angle = (offset + position) / 10_000 ** (2 * (i // 2) / width)
            expected = math.cos(angle) if i % 2 else math.sin(angle)
            assert added[0, position, i].item() == pytest.approx(expected, abs=1e-12)
    assert Sinusoidal().reach(12) is None
    assert not list(Sinusoidal().build(width, PLACE).parameters())


def test_no_position_changes_nothing() -> None:
    x = torch.randn(2, 5, 16)
    assert NoPosition().build(16, PLACE)(x) is x
    assert NoPosition().rotary(8, PLACE)(x) is x
    assert NoPosition().bias(4, PLACE)(torch.zeros(5, 5)).abs().sum() == 0
    assert NoPosition().reach(12) is None


@pytest.mark.parametrize(("head_dim", "fraction"), [(7, 1.0), (8, 0.4), (8, 0.1)])
def test_an_odd_number_of_features_cannot_turn(head_dim: int, fraction: float) -> None:
    assert f"of head_dim {head_dim}" in (Rope(fraction=fraction).fault(head_dim) or "")
    assert Rope().fault(8) is None
