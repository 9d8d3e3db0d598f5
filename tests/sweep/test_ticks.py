import random

import pytest
from matplotlib.figure import Figure

from labkit.sweep.ticks import logarithmic, logarithmic_places


@pytest.mark.parametrize(
    ("low", "high", "places"),
    [
        (1e3, 1e6, [1e3, 1e4, 1e5, 1e6]),
        (5e-4, 8e-3, [5e-4, 1e-3, 2e-3, 5e-3]),
        (0.9e-3, 5.5e-3, [1e-3, 2e-3, 5e-3]),
        (0.0011, 0.0042, [0.002, 0.003, 0.004]),
        (0.0011, 0.0018, [0.0012, 0.0014, 0.0016, 0.0018]),
    ],
)
def test_the_ticks_of_a_logarithmic_axis_are_few_round_numbers(low: float, high: float, places: list[float]) -> None:
    assert logarithmic_places(low, high) == places


def test_there_are_three_ticks_to_nine_whatever_the_range_up_to_eight_decades() -> None:
    draw = random.Random(0)
    for _ in range(2000):
        low = 10 ** draw.uniform(-6, 6)
        high = low * 10 ** draw.uniform(0.001, 8)
        places = logarithmic_places(low, high)
        assert 3 <= len(places) <= 9
        assert low <= places[0] < places[-1] <= high


def test_an_axis_shows_its_ticks_as_plain_numbers() -> None:
    axes = Figure().add_axes((0, 0, 1, 1))
    axes.set_xscale("log")
    axes.set_xlim(5e-4, 8e-3)
    logarithmic(axes.xaxis)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.0005", "0.001", "0.002", "0.005"]
    assert not axes.get_xticklabels(minor=True)
