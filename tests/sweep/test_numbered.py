import random

from labkit.sweep.numbered import DIGIT, DOT, LINE, offsets

Point = tuple[float, float]


def _boxes(points: dict[str, Point]) -> list[tuple[float, float, float, float]]:
    """Left, right, lower and upper end of every text, then of every dot."""
    texts = [(points[name][0] + right, points[name][1] + up, name) for name, (right, up) in offsets(points).items()]
    sizes = [(x, y, DIGIT * len(name) / 2, LINE / 2) for x, y, name in texts]
    sizes += [(x, y, DOT, DOT) for x, y in points.values()]
    return [(x - w, x + w, y - h, y + h) for x, y, w, h in sizes]


def test_a_number_stands_beside_its_point_and_none_upon_another() -> None:
    draw = random.Random(0)
    for _ in range(100):
        points = {str(n): (draw.uniform(0, 60), 12.0 * n) for n in range(9)}
        boxes = _boxes(points)
        for at, (left, right, low, high) in enumerate(boxes[: -len(points)]):
            others = boxes[:at] + boxes[at + 1 :]
            assert not any(left < r and x < right and low < h and y < high for x, r, y, h in others)


def test_a_number_keeps_off_the_line_that_joins_the_points() -> None:
    level = offsets({"7": (0.0, 0.0), "12": (90.0, 0.0)})
    assert level["7"][0] < 0 < level["12"][0]
    assert {up for _, up in level.values()} == {0}


def test_a_number_without_room_is_left_out() -> None:
    crowd = {str(100 + n): (0.5 * n, 0.5 * n) for n in range(40)}
    assert 2 <= len(offsets(crowd)) < 20
