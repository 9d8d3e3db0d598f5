"""The live view: paces and times left, from what the workers have written."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labkit.study import watch as watch_module
from labkit.study.executors import Answer
from labkit.study.plan import Job
from labkit.study.watch import Pace, Watch, clock
from labkit.tracking import record as record_module
from labkit.tracking.console import Console, Gauges
from labkit.tracking.record import Run


class Shown(Gauges):
    """Gauges that remember what they show."""

    def __init__(self) -> None:
        super().__init__(Console())
        self.notes: dict[str, tuple[float, str]] = {}

    def set(self, name: str, done: float, total: float, note: str) -> None:
        self.notes[name.strip()] = (done / total, note)

    def drop(self, name: str) -> None:
        self.notes.pop(name.strip(), None)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands until it is set."""
    time = [100.0]
    fake = SimpleNamespace(time=lambda: time[0], monotonic=lambda: time[0])
    monkeypatch.setattr(watch_module, "time", fake)
    monkeypatch.setattr(record_module.time, "time", lambda: time[0])
    return time


def job(folder: Path, name: str) -> Job:
    (folder / name).mkdir()
    counted = SimpleNamespace(arm=SimpleNamespace(name=name), steps=100, flops=1e9)
    return Job(Run(folder / name), cast(Any, counted), 0)


@pytest.mark.parametrize(("seconds", "text"), [(None, "-:--"), (7.4, "0:07"), (750, "12:30"), (3723, "1:02:03")])
def test_times_look_like_a_stopwatch(seconds: float | None, text: str) -> None:
    assert clock(seconds) == text


def test_the_time_left_follows_from_the_pace(tmp_path: Path, now: list[float]) -> None:
    pace = Pace(job(tmp_path, "a"), started=100.0)
    pace.look()
    assert (pace.done, pace.note) == (0.0, "starting")
    for step in (10, 20, 30):
        now[0] = 100 + step / 10
        pace.job.run.append(step, {"train/loss": 3.0, "perf/tokens_per_s": 4000.0})
        pace.look()
    assert pace.left == pytest.approx(7.0)
    assert pace.note == " 30/100  loss 3.0000  4.00k tok/s  0:07 left"


def test_a_loss_that_is_no_number_is_shown_as_such(tmp_path: Path, now: list[float]) -> None:
    pace = Pace(job(tmp_path, "a"), started=now[0])
    pace.job.run.append(5, {"train/loss": float("nan")})
    pace.look()
    assert "loss nan" in pace.note


def test_the_whole_counts_what_was_done_before_but_not_as_speed(tmp_path: Path, now: list[float]) -> None:
    jobs = [job(tmp_path, name) for name in ("a", "b", "c", "d")]
    shown = Shown()
    watch = Watch(Console(), shown, jobs, jobs[2:])
    assert shown.notes == {"all": (0.5, "2/4 runs  -:-- left")}
    watch.start(jobs[2])
    now[0] = 110
    jobs[2].run.append(1, {"train/loss": 3.0})
    watch.tick()
    now[0] = 120
    jobs[2].run.append(51, {"train/loss": 3.0})
    watch.tick()
    assert shown.notes["all"][0] == pytest.approx((2 + 0.9 * 0.51) / 4)
    assert watch.left == pytest.approx((2 - 0.9 * 0.51) / (0.9 * 0.51) * 20, rel=0.01)
    watch.end(jobs[2], Answer("done"))
    watch.end(jobs[3], Answer("over"))
    assert set(shown.notes) == set()
    assert watch.over == 4


def test_a_run_at_its_last_step_is_being_evaluated_and_the_whole_is_not_over(tmp_path: Path, now: list[float]) -> None:
    jobs = [job(tmp_path, name) for name in ("a", "b")]
    jobs[0].run.create({}, {})
    jobs[0].run.update(status="done", started=10.0, ended=30.0, seconds=15.0)
    shown = Shown()
    watch = Watch(Console(), shown, jobs, jobs[1:])
    watch.start(jobs[1])
    for step in (1, 50, 100):
        now[0] += 10
        jobs[1].run.append(step, {"train/loss": 3.0})
        watch.tick()
    assert shown.notes["b · seed 0"] == (1.0, "100/100  loss 3.0000      - tok/s  evaluating")
    assert shown.notes["all"][1] == f"1/2 runs  {clock(watch.left)} left"
    assert watch.left == pytest.approx(30 * 0.25 / 0.75)
    assert clock(0.0) == "0:01"


def test_what_is_left_is_unknown_while_the_first_runs_are_evaluated(tmp_path: Path, now: list[float]) -> None:
    jobs = [job(tmp_path, name) for name in ("a", "b")]
    watch = Watch(Console(), Shown(), jobs, jobs)
    watch.start(jobs[0])
    for step in (1, 50):
        now[0] += 10
        jobs[0].run.append(step, {"train/loss": 3.0})
        watch.tick()
    assert watch.left is not None
    jobs[0].run.append(100, {"train/loss": 3.0})
    watch.tick()
    assert watch.left is None


def test_every_end_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = job(tmp_path, "a")
    watch = Watch(Console(), Shown(), [one], [one])
    one.run.create({}, {"diverged_at": 7, "final": {"val/loss": 2.5}, "seconds": 3.0, "started": 10.0, "ended": 14.5})
    for status in ("done", "diverged", "paused", "elsewhere", "busy"):
        watch.end(one, Answer(status))
    one.run.update(status="done")
    watch.end(one, Answer("over"))
    watch.end(one, Answer("failed", "it broke"))
    assert capsys.readouterr().err.splitlines() == [
        "a · seed 0  done  val/loss 2.5000  in 4.5 s",
        "a · seed 0  diverged at step 7",
        "a · seed 0  paused at step 0 of 100",
        "a · seed 0  is being trained by another process; waiting for it",
        "a · seed 0  done by another process",
        f"a · seed 0  failed: it broke  (see {one.run.console_log})",
    ]
