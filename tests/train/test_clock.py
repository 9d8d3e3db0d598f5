"""What counts as time of training."""

import pytest

from labkit.train import clock as clocks
from labkit.train.clock import Clock


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    now = {"s": 100.0}
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: now["s"])
    return now


def test_what_happens_while_it_is_stopped_does_not_count(at: dict[str, float]) -> None:
    clock = Clock()
    at["s"] += 3
    with clock.stopped():
        at["s"] += 50
        assert clock.seconds == 3
    at["s"] += 4
    assert clock.seconds == 7


def test_speed_leaves_out_the_first_step() -> None:
    clock = Clock()
    for seconds in (10, 1, 1, 2):
        clock.tick(seconds)
    assert clock.timed == (3, 4)
    assert clock.steps_per_second() == 3 / 4
    assert clock.steps_per_second(since=(2, 2)) == 1 / 2


def test_there_is_no_speed_before_the_second_step() -> None:
    clock = Clock()
    clock.tick(1)
    assert clock.steps_per_second() is None


def test_it_goes_on_from_what_was_put_away(at: dict[str, float]) -> None:
    clock = Clock()
    for _ in range(3):
        at["s"] += 2
        clock.tick(2)
    state = clock.state()
    at["s"] += 1000
    again = Clock()
    again.restore(state)
    at["s"] += 1
    assert again.seconds == 7
    assert again.timed == (2, 4)
