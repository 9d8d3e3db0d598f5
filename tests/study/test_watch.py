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


def interrupted(one: Job, written: int, saved: int) -> Job:
    """With so many steps on record, and a checkpoint of so many."""
    for step in range(10, written + 1, 10):
        one.run.append(step, {"train/loss": 3.0, "perf/tokens_per_s": 9e9})
    (one.run.checkpoints / f"step-{saved:09}").mkdir(parents=True)
    return one


def test_steps_made_before_an_interruption_are_made_but_tell_no_speed(tmp_path: Path, now: list[float]) -> None:
    """Steps 31 to 60 are lost with the worker, and made again."""
    one = interrupted(job(tmp_path, "a"), written=60, saved=30)
    now[0] = 1000
    pace = Pace(one, started=now[0])
    pace.look()
    assert (pace.done, pace.left, pace.note) == (0.3, None, " 30/100  loss 3.0000      - tok/s  -:-- left")
    for step in (40, 50):
        now[0] = 1000 + step
        one.run.append(step, {"train/loss": 2.0, "perf/tokens_per_s": 4000.0})
        pace.look()
    assert (pace.done, pace.gained) == (0.5, pytest.approx(0.2))
    assert pace.note == " 50/100  loss 2.0000  4.00k tok/s  0:50 left"


def test_a_run_that_another_worker_takes_up_is_timed_from_there(tmp_path: Path, now: list[float]) -> None:
    pace = Pace(job(tmp_path, "a"), started=now[0])
    for step, later in ((10, 10), (60, 20), (30, 1000), (40, 1001)):
        now[0] = 100 + later
        pace.job.run.append(step, {"train/loss": 3.0})
        pace.look()
    assert (pace.done, pace.left) == (0.4, pytest.approx(6.0))


def test_the_time_left_of_the_whole_rests_on_what_this_session_made(tmp_path: Path, now: list[float]) -> None:
    jobs = [interrupted(job(tmp_path, name), written=80, saved=80) for name in ("a", "b")]
    shown = Shown()
    now[0] = 1000
    watch = Watch(Console(), shown, jobs, jobs)
    assert shown.notes["all"] == (pytest.approx(0.9 * 0.8), "0/2 runs  -:-- left")
    watch.start(jobs[0])
    for step in (81, 90):
        now[0] += 10
        jobs[0].run.append(step, {"train/loss": 3.0})
        watch.tick()
    left, made = 2 - 0.9 * (0.9 + 0.8), 0.9 * 0.1
    assert watch.left == pytest.approx(20 * left / made)


def test_a_run_that_is_put_back_is_counted_once(tmp_path: Path, now: list[float]) -> None:
    one = job(tmp_path, "a")
    watch = Watch(Console(), Shown(), [one], [one])
    watch.start(one)
    for step in (10, 50):
        now[0] += 10
        one.run.append(step, {"train/loss": 3.0})
        watch.tick()
    before = watch.left
    interrupted(one, written=0, saved=50)
    watch.end(one, Answer("busy"))
    watch.start(one)
    assert watch.left == pytest.approx(before)


def test_a_run_that_ends_early_is_not_taken_for_a_fast_one(tmp_path: Path, now: list[float]) -> None:
    jobs = [job(tmp_path, name) for name in ("a", "b", "c")]
    jobs[0].run.create({}, {"diverged_at": 10})
    watch = Watch(Console(), Shown(), jobs, jobs)
    watch.start(jobs[0])
    for step in (5, 10):
        now[0] += 10
        jobs[0].run.append(step, {"train/loss": 3.0})
        watch.tick()
    watch.end(jobs[0], Answer("diverged"))
    assert watch.left == pytest.approx(20 * 2 / (0.9 * 0.1))


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
