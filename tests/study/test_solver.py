"""The solver: nearest over the grid, against every point of it."""

import random

import pytest

from labkit.study.solver import nearest

MOST = 300


def straight(index: int) -> float:
    return 7.0 * index + 100


def stairs(index: int) -> float:
    return 10.0 * (index // 4)


def curved(index: int) -> float:
    return index**2 + 3.0 * index


def with_holes(index: int) -> float | None:
    return straight(index) if index % 5 == 0 else None


def ending(index: int) -> float | None:
    return straight(index) if index <= 40 else None


@pytest.mark.parametrize("count", [straight, stairs, curved, with_holes, ending])
@pytest.mark.parametrize("start", [1, 17, MOST])
def test_it_finds_what_trying_every_point_finds(count, start: int) -> None:
    draw = random.Random(0)
    counts = {index: count(index) for index in range(1, MOST + 1)}
    points = {index: found for index, found in counts.items() if found is not None}
    for target in [0.0, 1e9, 107.0, 110.5, *(draw.uniform(0, 1.2 * max(points.values())) for _ in range(40))]:
        found = nearest(count, target, start, MOST)
        best = min(abs(value - target) for value in points.values())
        assert found is not None
        assert abs(points[found] - target) == best


def test_of_two_equally_near_it_takes_the_smaller() -> None:
    assert nearest(straight, 110.5, 30, MOST) == 1


def test_a_straight_line_takes_few_counts() -> None:
    asked: list[int] = []

    def count(index: int) -> float:
        asked.append(index)
        return straight(index)

    assert nearest(count, straight(200) + 1, 150, 2**40) == 200
    assert len(asked) <= 6


def test_nothing_possible_is_none() -> None:
    assert nearest(lambda index: None, 5.0, 3, MOST) is None
