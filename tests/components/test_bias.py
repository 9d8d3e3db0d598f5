"""Biases of scores against the published slopes, and against the buckets of transformers 5.24."""

import pytest
import torch

from labkit.components.bias import BucketBias, alibi_slopes
from labkit.components.place import Place
from labkit.components.position import T5, Alibi, NoPosition, Position

PLACE = Place(0, 1, 8)
DISTANCE = torch.arange(6)[:, None] - torch.arange(6)


@pytest.mark.parametrize(
    ("n_heads", "expected"),
    [
        (1, [2**-8]),
        (8, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]),
        (16, [2 ** (-h / 2) for h in range(1, 17)]),
        (3, [2**-4, 2**-8, 2**-2]),
        (12, [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]),
    ],
)
def test_slopes_are_those_of_the_authors_also_where_heads_are_no_power_of_two(n_heads, expected) -> None:
    assert alibi_slopes(n_heads) == pytest.approx(expected, rel=1e-12)


def test_alibi_falls_with_the_distance() -> None:
    bias = Alibi().bias(4, PLACE)(DISTANCE)
    for head, slope in enumerate((2**-2, 2**-4, 2**-6, 2**-8)):
        for query in range(6):
            assert bias[head, query, : query + 1].tolist() == [-slope * (query - key) for key in range(query + 1)]


@pytest.mark.parametrize(
    ("buckets", "max_distance", "expected"),
    [
        (32, 128, [0, 1, 2, 7, 8, 15, 16, 16, 17, 18, 21, 21, 21, 23, 26, 26, 29, 31, 31, 31]),
        (7, 20, [0, 1, 2, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6]),
    ],
)
def test_buckets_are_those_of_t5(buckets: int, max_distance: int, expected: list[int]) -> None:
    distances = torch.tensor([0, 1, 2, 7, 8, 15, 16, 17, 20, 21, 31, 32, 33, 40, 63, 64, 90, 127, 128, 1000])
    assert BucketBias(1, buckets, max_distance).bucket(distances).tolist() == expected


def test_t5_looks_its_bias_up_by_bucket_and_head() -> None:
    module = T5(buckets=4, max_distance=8).bias(2, PLACE)
    torch.nn.init.normal_(module.weight)
    bias = module(DISTANCE)
    assert bias.shape == (2, 6, 6)
    # single: 0, 1; by logarithm: 2 and 3 (below 4 = 2 · √4), 4 and more
    for distance, bucket in enumerate([0, 1, 2, 2, 3, 3]):
        assert torch.equal(bias[:, 5, 5 - distance], module.weight[bucket])


@pytest.mark.parametrize("position", [NoPosition(), Alibi(), T5()])
def test_a_bias_is_a_function_of_the_distance_alone(position: Position) -> None:
    module = position.bias(3, PLACE)
    for stored in module.parameters():
        torch.nn.init.normal_(stored)
    scores = torch.randn(2, 3, 6, 6)
    torch.testing.assert_close(module.added(scores, DISTANCE), scores + module(DISTANCE).float())
    torch.testing.assert_close(module(DISTANCE[4:]), module(DISTANCE)[..., 4:, :])


def test_buckets_that_leave_nothing_for_the_logarithm_are_refused_with_both_numbers() -> None:
    assert "max_distance 16 must be above half of buckets 32" in (T5(max_distance=16).fault(8) or "")
    assert T5().fault(8) is None
