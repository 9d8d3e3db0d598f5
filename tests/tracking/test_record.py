"""The record on disk: what survives a crash, and who owns a run."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.tracking.atomic import Damaged, read_json, write_json
from labkit.tracking.record import Busy, Edition, Newer, Run

FACTS = {"variant": "theta=1000", "arm": "0123", "fingerprint": "0123456789abcdef", "seed_index": 2}
ARM = {"name": "baseline", "label": "", "baseline": True, "fingerprint": "0123", "changes": {}, "varied": {}}
SIZES = {"params": 1, "non_embedding": 1, "flops_per_token": 1.0, "tokens": 1, "steps": 1}
TOLD = {"file": "x.py", "command": "", "question": "?", "hypothesis": "", "metric": "val/loss", "match": "none"}
DESCRIPTION = {**TOLD, "seeds": [0], "arms": [{**ARM, **SIZES}]}
GARBAGE = {
    "empty": b"",
    "truncated": b'{"version": 1, "status": "do',
    "binary": bytes(range(256)),
    "list": b"[]",
    "null": b"null",
    "no fields": b"{}",
    "deep": b"[" * 100_000,
    "another status": b'{"version": 1, "status": "sleeping", "step": 3}',
    "another type": b'{"version": 1, "status": "done", "step": "three"}',
    "another final": b'{"version": 1, "status": "done", "step": 3, "final": [1]}',
    "no version": b'{"status": "done", "step": 3}',
}


def damage(path: Path, content: bytes | None) -> None:
    """Put bytes in a file's place; None puts a folder there."""
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Edition(tmp_path / "rope" / "main").run("theta=1000", 2, "0123456789abcdef")
    run.create({"model": 1}, FACTS)
    return run


def test_a_planned_run_has_its_spec_and_its_facts(run: Run) -> None:
    assert run.spec() == {"model": 1}
    assert run.record() == {"version": 1, "status": "planned", "step": 0, **FACTS}
    assert run.path.name == "seed2-0123456789abcdef"


def test_planning_again_keeps_what_was_recorded(run: Run) -> None:
    run.update(status="done", step=7)
    run.create({"model": 1}, FACTS)
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
    _, offset = run.lines()
    assert run.curves() == ({"train/loss": [(1, 3.0)]}, "")
    run.append(2, {"train/loss": 2.0})
    assert run.curves() == ({"train/loss": [(1, 3.0), (2, 2.0)]}, "")
    assert [line["step"] for line in run.lines(offset)[0]] == [2]


def test_half_a_first_line_leaves_nothing(run: Run) -> None:
    (run.path / "metrics.jsonl").write_text('{"step": 2, "train/lo')
    run.append(2, {"train/loss": 2.0})
    assert (run.path / "metrics.jsonl").read_text().startswith('{"step": 2, "time"')


def test_a_last_line_that_lacks_only_its_end_counts(run: Run) -> None:
    run.append(1, {"train/loss": 3.0})
    file = run.path / "metrics.jsonl"
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    _, offset = run.lines()
    assert run.curves() == ({"train/loss": [(1, 3.0)]}, "")
    run.append(2, {"train/loss": 2.0})
    assert run.curves() == ({"train/loss": [(1, 3.0), (2, 2.0)]}, "")
    assert [line["step"] for line in run.lines(offset)[0]] == [2]


def test_lines_that_hold_no_metrics_are_counted(run: Run) -> None:
    run.append(1, {"train/loss": 3.0})
    file = run.path / "metrics.jsonl"
    file.write_text('{"step": 1, "train/lo\n\n' + file.read_text())
    assert run.curves() == ({"train/loss": [(1, 3.0)]}, f"{file}: 1 line holds no metrics and is left out")
    file.write_text("step,loss\n" + file.read_text())
    assert run.curves()[1] == f"{file}: 2 lines hold no metrics and are left out"


@pytest.mark.parametrize(("status", "lost"), [("running", 0), ("failed", 0), ("paused", 0), ("done", 1), ("pruned", 1)])
def test_half_a_line_at_the_end_is_lost_only_where_the_run_is_over(run: Run, status: str, lost: int) -> None:
    run.create({}, {})
    run.append(1, {"train/loss": 3.0})
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "train/lo')
    run.update(status=status)
    curves, told = run.curves()
    assert (curves, bool(told)) == ({"train/loss": [(1, 3.0)]}, bool(lost))


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
    assert (run.stop_requested, run.stop_reason) == (False, "")
    run.request_stop()
    assert (run.stop_requested, run.stop_reason) == (True, "")
    run.request_stop("pruned")
    assert (run.stop_requested, run.stop_reason) == (True, "pruned")
    run.clear_stop()
    assert not run.stop_requested


def test_an_edition_finds_its_runs_and_says_its_name(run: Run) -> None:
    edition = Edition(run.path.parents[1])
    assert edition.runs() == [run]
    assert (edition.title, Edition(edition.path.with_name("small")).title) == ("rope", "rope@small")
    edition.describe(DESCRIPTION)
    assert edition.description() == {"version": 1, **DESCRIPTION}


@pytest.mark.parametrize("content", [*GARBAGE.values(), None], ids=[*GARBAGE, "folder"])
@pytest.mark.parametrize("file", ["record.json", "spec.json"])
def test_a_damaged_run_is_named_with_its_remedy_and_is_never_taken_for_none(
    run: Run, file: str, content: bytes | None
) -> None:
    damage(run.path / file, content)
    read = run.record if file == "record.json" else run.spec
    with pytest.raises(Damaged) as caught:
        read()
    assert str(run.path / file) in str(caught.value)
    assert f"Remove the folder {run.path} to train it again." in str(caught.value)
    assert "\n" not in str(caught.value)
    edition = Edition(run.path.parents[1])
    assert (edition.runs(), edition.damaged()) == ([], [str(caught.value)])


def test_a_spec_that_is_gone_from_a_recorded_run_is_damage_and_from_an_empty_folder_it_is_none(run: Run) -> None:
    (run.path / "spec.json").unlink()
    with pytest.raises(Damaged, match=r"spec\.json is missing"):
        run.spec()
    (run.path / "record.json").unlink()
    assert (run.spec(), run.record()) == ({}, {})


def test_a_record_that_lacks_what_its_edition_needs_is_left_out(run: Run) -> None:
    write_json(run.path / "record.json", {"version": 1, "status": "done", "step": 3})
    edition = Edition(run.path.parents[1])
    assert edition.runs() == []
    assert "variant: Field required" in edition.damaged()[0]


def test_a_look_is_entered_once_and_outlives_another_description(run: Run) -> None:
    edition = Edition(run.path.parents[1])
    edition.describe(DESCRIPTION)
    look = {"seeds": 3, "baseline": "0123", "margin": 0.005, "verdicts": {"a": "win"}, "placebos": {}}
    for made in ("report.html", "board.json"):
        (edition.path / made).write_text("made of it")
    for again in (look, look, look | {"verdicts": {"a": "tie"}}):
        edition.enter(again)
    assert (edition.path / "report.html").exists()
    edition.describe({**DESCRIPTION, "seeds": [0, 1]})
    assert not (edition.path / "report.html").exists()
    assert not (edition.path / "board.json").exists()
    assert edition.description() == {"version": 1, **DESCRIPTION, "seeds": [0, 1], "ledger": [look]}
    more = {"verdicts": {"a": "tie", "b": "loss"}, "placebos": {"placebo": False}}
    edition.enter(look | more)
    [entered] = edition.description()["ledger"]
    assert (entered["verdicts"], entered["placebos"]) == ({"a": "win", "b": "loss"}, {"placebo": False})
    edition.enter(look | {"seeds": 5})
    assert [one["seeds"] for one in edition.description()["ledger"]] == [3, 5]


def test_files_of_a_newer_labkit_are_left_alone(run: Run) -> None:
    edition = Edition(run.path.parents[1])
    write_json(run.path / "record.json", {"version": 2, "state": "done"})
    write_json(edition.path / "experiment.json", {"version": 2})
    for read in (run.record, lambda: run.update(step=1), edition.description, lambda: edition.describe(DESCRIPTION)):
        with pytest.raises(Newer, match=r"is of format 2, and this labkit reads 1\. Upgrade labkit\."):
            read()
    assert len(edition.damaged()) == 1
    assert read_json(edition.path / "experiment.json") == {"version": 2}


@pytest.mark.parametrize("content", [*GARBAGE.values()], ids=[*GARBAGE])
def test_a_damaged_description_is_named_and_written_again_by_the_next_run(run: Run, content: bytes) -> None:
    edition = Edition(run.path.parents[1])
    edition.describe(DESCRIPTION)
    damage(edition.path / "experiment.json", content)
    with pytest.raises(Damaged, match=r"experiment\.json.*Run the experiment again to write it\."):
        edition.description()
    edition.describe(DESCRIPTION)
    assert edition.description() == {"version": 1, **DESCRIPTION}


def test_a_description_without_arms_is_damaged(run: Run) -> None:
    edition = Edition(run.path.parents[1])
    write_json(edition.path / "experiment.json", {"version": 1, **DESCRIPTION, "arms": []})
    with pytest.raises(Damaged, match="arms"):
        edition.description()


def test_lines_that_are_no_metrics_are_skipped(run: Run) -> None:
    run.append(1, {"train/loss": 3.0})
    strange = ["[1,2]", '{"time": 1, "train/loss": 2}', '{"step": "2", "time": 1}', '{"step": 2, "time": 1, "x": "y"}']
    strange += [
        "7",
        "null",
        '{"step": 2.5, "time": 1}',
        '{"step": true, "time": 1}',
        '{"step": 2, "time": 1, "x": [1]}',
    ]
    with (run.path / "metrics.jsonl").open("ab") as file:
        file.write("\n".join(strange).encode() + b"\n\xff\x00\n" + b"[" * 100_000 + b"\n")
    run.append(3, {"train/loss": math.nan})
    lines, offset = run.lines()
    assert [line["step"] for line in lines] == [1, 3]
    assert offset == (run.path / "metrics.jsonl").stat().st_size
    assert list(run.metrics()) == ["train/loss"]
