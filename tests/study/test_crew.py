"""The crew: which worker has which jobs, and what becomes of them."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labkit.study import crew as crews
from labkit.study.crew import Crew
from labkit.study.executors import Answer, Slot
from labkit.study.plan import Job
from labkit.tracking.record import Run
from labkit.train.run import Runtime

DEATH = Answer("failed", "killed", died=True)


class Acting:
    """A worker that does what a script says of the runs that it has."""

    script: Callable[["Acting"], list[tuple[str, str]] | Answer]
    hired: list["Acting"]
    first_room = 1

    def __init__(self, slot: Slot) -> None:
        self.room, self.runs, self.had = self.first_room, list[str](), list[str]()
        self.is_alive = True
        self.told: list[tuple[Path, Answer] | Answer] = []
        Acting.hired.append(self)

    def give(self, run: Run) -> None:
        self.runs.append(run.path.name)
        self.had.append(run.path.name)

    def answer(self, seconds: float) -> tuple[Path, Answer] | Answer | None:
        if not self.told:
            does = Acting.script(self)
            self.told = [does] if isinstance(does, Answer) else [(Path(name), Answer(how)) for name, how in does]
        if not self.told:
            return None
        told = self.told.pop(0)
        if isinstance(told, tuple):
            self.runs.remove(told[0].name)
        return told

    def leave(self) -> None: ...
    def end(self) -> None:
        self.is_alive = False


@pytest.fixture
def hire(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[str, str]]]:
    """Has jobs done by workers that act by a script; gives (job, status) as they happen."""
    monkeypatch.setattr(crews, "Worker", Acting)
    monkeypatch.setattr(crews, "PAUSE", 0.01)
    Acting.hired = []

    def done(names: str, script: Any, room: int = 1, slots: int = 1) -> list[tuple[str, str]]:
        monkeypatch.setattr(Acting, "script", staticmethod(script), raising=False)
        monkeypatch.setattr(Acting, "first_room", room)
        counted = SimpleNamespace(arm=SimpleNamespace(name="arm"))
        jobs = [Job(Run(Path(name)), cast(Any, counted), 0) for name in names]
        crew = Crew([Slot(Runtime(device="cpu"))] * slots, jobs, lambda _: "train")
        crew.start()
        return [(event.job.run.path.name, event.answer.status) for event in crew.events() if event and event.answer]

    return done


def first(worker: Acting) -> list[tuple[str, str]]:
    return [(worker.runs[0], "done")]


def test_a_worker_has_one_job_until_it_says_that_it_has_room(hire) -> None:
    def script(worker: Acting) -> list[tuple[str, str]]:
        had.append(len(worker.runs))
        worker.room = 2
        return [(worker.runs[0], "done")]

    had: list[int] = []
    assert hire("abcd", script) == [(name, "done") for name in "abcd"]
    assert had == [1, 2, 2, 1]
    assert len(Acting.hired) == 1


def test_no_worker_takes_what_another_could_begin_with(hire) -> None:
    def script(worker: Acting) -> list[tuple[str, str]]:
        return first(worker) if sum(len(each.had) for each in Acting.hired) == 4 else []

    hire("abcd", script, room=4, slots=2)
    assert [len(worker.had) for worker in Acting.hired] == [2, 2]


def test_of_several_that_a_worker_dies_with_each_has_another_try_alone(hire) -> None:
    def script(worker: Acting) -> list[tuple[str, str]] | Answer:
        if "b" in worker.runs:
            return DEATH
        return [] if len(worker.runs) < 3 and len(Acting.hired) == 1 else first(worker)

    told = hire("abc", script, room=3)
    assert sorted(told) == [("a", "busy"), ("a", "done"), ("b", "busy"), ("b", "failed"), ("c", "busy"), ("c", "done")]
    assert [worker.had for worker in Acting.hired[1:]] == [["a"], ["b"], ["c"]]


def test_a_job_that_needs_another_worker_gets_one_when_the_others_are_over(hire) -> None:
    def script(worker: Acting) -> list[tuple[str, str]]:
        if len(Acting.hired) == 1 and "b" in worker.runs:
            worker.room = 0
            return [("b", "reload")]
        return [(worker.runs[0], "done")] if worker.room == 0 or len(Acting.hired) > 1 else []

    assert hire("abc", script, room=2) == [("b", "busy"), ("a", "done"), ("c", "done"), ("b", "done")]
    assert [worker.had for worker in Acting.hired] == [["a", "b"], ["c", "b"]]


def test_a_worker_that_died_idle_is_replaced(hire) -> None:
    def script(worker: Acting) -> list[tuple[str, str]]:
        worker.is_alive = False
        return first(worker)

    assert hire("ab", script) == [("a", "done"), ("b", "done")]
    assert len(Acting.hired) == 2
