"""Long works, timed in their own company; with a clock of the tests' own."""

import pytest

from labkit.bench import measure


def test_a_work_is_repeated_in_its_turn_and_counts_once_its_own_clock_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def timed(work: measure.Work) -> float:
        """Slow for five calls after the other's turn."""
        work()
        since = next((at for at, name in enumerate(reversed(done)) if name != done[-1]), len(done))
        return (1.0 if done[-1] == "quick" else 2.0) + (9.0 if since <= 5 else 0.0)

    monkeypatch.setattr(measure, "timed", timed)
    works = {name: (lambda name=name: done.append(name)) for name in ("quick", "long")}
    assert measure.alternated(works, turns=4, times=10) == {"quick": 1.0, "long": 2.0}
    turns = [done[at] for at in range(0, len(done), 10)]
    assert sorted(turns) == ["long"] * 4 + ["quick"] * 4
    assert [turns[at : at + 2] for at in range(0, 8, 2)] != [turns[:2]] * 4
