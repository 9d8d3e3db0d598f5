"""Training in turns: each in its place, and nothing of a place is left between two."""

from collections.abc import Generator
from contextlib import contextmanager

from labkit.train.turns import Turn, Turns, each_in, finished


def test_each_turn_is_in_a_place_of_its_own_and_hears_what_is_asked() -> None:
    log: list[str] = []

    @contextmanager
    def place() -> Generator[None]:
        log.append("in")
        yield
        log.append("out")

    def run() -> Turns[str]:
        for tokens in (1, 2):
            log.append(str((yield Turn(tokens))))
        return "done"

    turns = each_in(run(), place)
    assert (next(turns).tokens, turns.send(True).tokens) == (1, 2)
    assert log == ["in", "out", "in", "True", "out"]
    assert finished(turns) == "done"
    assert log[5:] == ["in", "None", "out"]


def test_a_turn_is_ready_when_what_it_waits_for_has_passed() -> None:
    class Later:
        passed = False

    moment = Later()
    turn = Turn(until=moment)  # pyright: ignore[reportArgumentType]
    assert (Turn().is_ready, turn.is_ready) == (True, False)
    moment.passed = True
    assert turn.is_ready
