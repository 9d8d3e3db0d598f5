"""The record on disk: what survives a crash, and who owns a run."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.tracking.record import Busy, Edition, Run, read_json, write_json


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Edition(tmp_path / "rope" / "main").run("theta=1000", 2, "0123456789abcdef")
    run.create({"model": 1}, {"variant": "theta=1000"})
    return run


def test_a_planned_run_has_its_spec_and_its_facts(run: Run) -> None:
    assert run.spec() == {"model": 1}
    assert run.record() == {"version": 1, "status": "planned", "step": 0, "variant": "theta=1000"}
    assert run.path.name == "seed2-0123456789abcdef"


def test_planning_again_keeps_what_was_recorded(run: Run) -> None:
    run.update(status="done", step=7)
    run.create({"model": 1}, {"variant": "theta=1000"})
    assert run.record()["status"] == "done"


def test_the_last_line_of_each_key_and_step_counts(run: Run) -> None:
    run.append(1, {"train/loss": 3.0, "optim/lr": 0.1})
    run.append(2, {"train/loss": 2.0})
    run.append(1, {"train/loss": 5.0})
    assert run.metrics() == {"train/loss": [(1, 5.0), (2, 2.0)], "optim/lr": [(1, 0.1)]}


def test_what_is_not_finite_is_read_as_nan(run: Run) -> None:
    run.append(1, {"train/loss": math.inf})
    [(step, value)] = run.metrics()["train/loss"]
    assert step == 1
    assert math.isnan(value)


def test_half_a_line_of_a_killed_process_costs_no_other_line(run: Run) -> None:
    run.append(1, {"train/loss": 3.0})
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "train/lo')
    assert run.metrics() == {"train/loss": [(1, 3.0)]}
    run.append(2, {"train/loss": 2.0})
    assert run.metrics() == {"train/loss": [(1, 3.0), (2, 2.0)]}


def test_lines_are_followed_from_where_the_reader_left(run: Run) -> None:
    run.append(1, {"train/loss": 3.0})
    first, offset = run.lines()
    run.append(2, {"train/loss": 2.0})
    second, _ = run.lines(offset)
    assert [line["step"] for line in first + second] == [1, 2]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": math.nan})
    assert read_json(tmp_path / "a.json") == {"x": 1}


def test_a_run_has_one_owner_and_the_lock_dies_with_its_process(run: Run) -> None:
    code = (
        "import sys, time; from pathlib import Path; from labkit.tracking.record import Run\n"
        f"with Run(Path({str(run.path)!r})).lock():\n    print('mine', flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "mine\n"
    assert run.owned
    with pytest.raises(Busy, match="another process"), run.lock():
        pass
    owner.kill()
    owner.communicate()
    assert not run.owned
    with run.lock():
        assert run.owned


def test_a_stop_is_asked_for_through_the_folder(run: Run) -> None:
    run.request_stop()
    assert run.stop_requested
    run.clear_stop()
    assert not run.stop_requested


def test_an_edition_finds_its_runs_and_says_its_name(run: Run) -> None:
    edition = Edition(run.path.parents[1])
    assert edition.runs() == [run]
    assert (edition.title, Edition(edition.path.with_name("small")).title) == ("rope", "rope@small")
    edition.describe({"question": "?"})
    assert edition.description() == {"version": 1, "question": "?"}
