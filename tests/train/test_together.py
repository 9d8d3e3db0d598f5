"""How turns are given, and how many runs there is room for."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch

from labkit.train import room as rooms
from labkit.train.room import MeasuredRoom, Room, room_for
from labkit.train.together import Member, Together
from labkit.train.turns import Turn, Turns

CPU = torch.device("cpu")


class Later(SimpleNamespace):
    """A moment that passes when it is told."""

    passed = False


def run_of(said: list[Turn], log: list[str], name: str) -> Turns[str]:
    for turn in said:
        asked = yield turn
        if asked:
            log.append(f"{name} rests")
            yield Turn()
        log.append(name)
    return f"{name} over"


def together(room: Room, *runs: list[Turn]) -> tuple[Together[str, str], list[str]]:
    log: list[str] = []
    group: Together[str, str] = Together(room)
    for name, said in zip("abcd", runs, strict=False):
        group.join(Member(name, run_of(said, log, name), lambda: False))
    return group, log


def taken(group: Together[str, str]) -> Iterator[str]:
    while group.members:
        if over := group.turn():
            yield over[1]


def test_runs_have_their_turns_one_after_another() -> None:
    group, log = together(Room(3), [Turn(1)] * 3, [Turn(1)] * 2, [Turn(1)] * 1)
    assert list(taken(group)) == ["c over", "b over", "a over"]
    assert log == ["a", "b", "c", "a", "b", "a"]


def test_one_that_would_wait_is_passed_over_unless_all_would() -> None:
    moment = Later()
    group, log = together(Room(2), [Turn(1, until=moment)] * 2, [Turn(1)] * 3)
    for _ in range(4):
        group.turn()
    assert log == ["b", "b"]
    for _ in range(2):
        group.turn()
    assert log == ["b", "b", "b", "a"]


def test_those_without_room_get_ready_and_rest_until_it_is_their_turn() -> None:
    group, log = together(Room(1), [Turn(1)] * 2, [Turn(1)] * 2)
    assert list(taken(group)) == ["a over", "b over"]
    assert log == ["b rests", "a", "a", "b", "b"]


def test_one_that_is_told_to_stop_has_a_turn_for_it() -> None:
    group, _ = together(Room(1), [Turn(1)] * 50)
    group.join(Member("z", run_of([Turn(1)], [], "z"), lambda: True))
    assert next(taken(group)) == "z over"


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [0.0]
    monkeypatch.setattr(rooms, "time", SimpleNamespace(perf_counter=lambda: time[0]))
    monkeypatch.setattr(rooms, "free", lambda _: 2**30)
    return time


def train(room: Room, now: list[float], speed: float, turns: int = 400, **said: object) -> None:
    """Each turn of a run trains a thousand tokens, all together so many thousand a second."""
    for _ in range(turns):
        now[0] += 1 / speed
        room.see(Turn(**{"tokens": 1000, "captured": True, "memory": 2**20, **said}), room.at_once)


@pytest.mark.parametrize(
    ("speeds", "settled"),
    [((100, 104), 1), ((100, 150, 155), 2), ((100, 150, 200, 205), 4), ((100, 150, 200, 300), 8)],
)
def test_runs_are_doubled_while_that_is_faster(now: list[float], speeds: tuple[float, ...], settled: int) -> None:
    room, by_number = MeasuredRoom(CPU), dict(zip((1, 2, 4, 8), speeds, strict=False))
    for _ in range(1000):
        train(room, now, by_number[room.at_once], turns=1)
    assert (room.at_once, room.is_settled) == (settled, True)
    train(room, now, 1.0)
    assert room.at_once == settled


def test_what_disturbs_training_is_no_part_of_the_measurement(now: list[float]) -> None:
    room = MeasuredRoom(CPU)
    for _ in range(10):
        train(room, now, 100, turns=20)
        now[0] += 3.0
        room.see(Turn(), 1)
    assert room.rates[1] == pytest.approx(100_000)


def test_more_runs_than_the_memory_holds_are_not_tried(now: list[float]) -> None:
    room = MeasuredRoom(CPU)
    train(room, now, 100, memory=2**30)
    assert room.wanted == 1


def test_runs_that_keep_the_host_busy_train_alone(now: list[float]) -> None:
    room = MeasuredRoom(CPU)
    train(room, now, 100, captured=False)
    assert room.wanted == 1
    assert not room.admits(Turn(captured=True), Turn(captured=False))
    assert room.admits(Turn(captured=True), Turn(captured=True))


def test_where_memory_ran_out_no_more_are_tried(now: list[float]) -> None:
    room = MeasuredRoom(CPU)
    train(room, now, 100)
    room.shrink(1)
    train(room, now, 200)
    assert room.wanted == 1


def test_as_many_as_are_asked_for_go_together() -> None:
    assert (room_for(3, CPU).wanted, room_for("auto", CPU).wanted) == (3, 1)
