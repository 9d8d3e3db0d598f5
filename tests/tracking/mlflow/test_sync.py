"""MLflow shows what the records say: all of it, once, however often and after whatever it is told."""

import json
import math
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run as Shown

from labkit.tracking.mlflow import Board, pending, sync
from labkit.tracking.mlflow.sidecar import Sidecar
from labkit.tracking.record import Edition, Run


def write(run: Run, steps: range, shift: float = 0.0) -> None:
    for step in steps:
        run.append(
            step, {"train/loss": 4 / step + shift, "perf/tokens_per_s": 1000.0 + step + 10 * len(run.lines()[0])}
        )


def finish(run: Run, steps: int = 4, **fields: Any) -> None:
    final = {"val/loss": 1.5, "val/loss_x2": 1.75, "val/books/loss": 2.5, "perf/tokens_per_s": 1000.0}
    ending = {"final": final, "by_position": {"edges": [1, 2, 4], "loss": [3.0, 2.0]}}
    run.update(**{"status": "done", "started": 1000.0, "ended": 1010.0, "step": steps, **ending, **fields})


def shown(edition: Edition, uri: str) -> list[Shown]:
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(edition.title)
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id], order_by=["attributes.run_name"]))


def curve(run: Shown, key: str, uri: str) -> list[tuple[int, float]]:
    return sorted((metric.step, metric.value) for metric in MlflowClient(uri).get_metric_history(run.info.run_id, key))


def test_an_edition_is_an_experiment_of_flat_runs(make: Callable[..., Edition], uri: str) -> None:
    edition = make(seeds=2)
    for run in edition.runs():
        write(run, range(1, 3))
        finish(run)
    assert sync(edition, uri) == 4
    runs = shown(edition, uri)
    names = [run.info.run_name for run in runs]
    assert names == ["theta=1000 seed 0", "theta=1000 seed 1", "theta=10000 seed 0", "theta=10000 seed 1"]
    assert not any("mlflow.parentRunId" in run.data.tags for run in runs)
    assert {run.data.tags["variant"] for run in runs} == {"baseline", "theta=1000"}


def test_a_run_arrives_whole(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    finish(run, versions={"torch": "2.13.0"}, device="cpu")
    sync(edition, uri)
    (there,) = shown(edition, uri)
    assert curve(there, "train/loss", uri) == run.metrics()["train/loss"]
    assert curve(there, "final/val_loss", uri) == [(0, 1.5)]
    assert curve(there, "final/val_loss_x2", uri) == [(0, 1.75)]
    assert curve(there, "uncorrected/val_books_loss", uri) == [(0, 2.5)]
    assert curve(there, "position/val_loss", uri) == [(1, 3.0), (2, 2.0)]
    first, *_ = MlflowClient(uri).get_metric_history(there.info.run_id, "train/loss")
    assert first.timestamp == round(run.lines()[0][0]["time"] * 1000)
    assert (there.info.start_time, there.info.end_time) == (1_000_000, 1_010_000)
    assert there.data.tags.items() >= {"seed": "0", "fingerprint": f"{0:016x}", "status": "done"}.items()
    assert there.data.tags.items() >= {"device": "cpu", "mlflow.source.name": "experiments/rope.py"}.items()
    assert "mlflow.user" in there.data.tags
    varied = {"theta": "10000", "seed": "0", "model.position": "rope", "model.position.theta": "10000"}
    assert there.data.params.items() >= varied.items()
    (dataset,) = there.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("stdlib | byte", ("0123456789abcdef" * 4)[:36])
    artifacts = MlflowClient(uri).list_artifacts(there.info.run_id)
    assert [file.path for file in artifacts] == ["spec.json"]


def test_runs_of_a_log_scaled_choice_have_its_logarithm_too(make: Callable[..., Edition], uri: str) -> None:
    edition = make()
    for run in edition.runs():
        finish(run)
    sync(edition, uri)
    assert [run.data.params["log10_theta"] for run in shown(edition, uri)] == ["3", "4"]


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ("done", "FINISHED"),
        ("diverged", "FINISHED"),
        ("failed", "FAILED"),
        ("paused", "KILLED"),
        ("stopped", "KILLED"),
        ("pruned", "KILLED"),
        ("running", "KILLED"),
    ],
)
def test_statuses_are_told_in_mlflows_words(status: str, word: str, edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    run.update(status=status)
    sync(edition, uri)
    assert shown(edition, uri)[0].info.status == word


def test_a_run_is_running_while_a_process_owns_it(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    with run.lock():
        sync(edition, uri)
        assert shown(edition, uri)[0].info.status == "RUNNING"
    assert pending(edition, uri)
    sync(edition, uri)
    assert shown(edition, uri)[0].info.status == "KILLED"


def test_a_version_that_is_none_is_no_tag(edition: Edition, uri: str) -> None:
    finish(edition.runs()[0], versions={"torch": "2.13.0", "cuda": None})
    sync(edition, uri)
    versions = {key: value for key, value in shown(edition, uri)[0].data.tags.items() if key.startswith("version.")}
    assert versions == {"version.torch": "2.13.0"}


def test_planned_runs_are_not_shown(make: Callable[..., Edition], uri: str) -> None:
    edition = make()
    assert not pending(edition, uri)
    assert sync(edition, uri) == 0
    assert MlflowClient(uri).get_experiment_by_name(edition.title) is None


def test_nothing_is_told_twice(edition: Edition, uri: str) -> None:
    finish(edition.runs()[0])
    assert sync(edition, uri) == 1
    assert not pending(edition, uri)
    assert sync(edition, uri) == 0


def test_a_resumed_run_goes_on_without_doubled_points(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    sync(edition, uri)
    (before,) = shown(edition, uri)
    write(run, range(3, 8))
    finish(run)
    sync(edition, uri)
    (after,) = shown(edition, uri)
    assert (after.info.run_id, after.info.status) == (before.info.run_id, "FINISHED")
    assert curve(after, "train/loss", uri) == run.metrics()["train/loss"]
    assert [step for step, _ in curve(after, "perf/tokens_per_s", uri)] == list(range(1, 8))


def test_a_sync_killed_before_it_noted_what_it_sent_doubles_nothing(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    sync(edition, uri)
    note = (run.path / "mlflow.json").read_bytes()
    write(run, range(5, 8))
    sync(edition, uri)
    (run.path / "mlflow.json").write_bytes(note)
    write(run, range(8, 10))
    sync(edition, uri)
    (there,) = shown(edition, uri)
    assert curve(there, "train/loss", uri) == run.metrics()["train/loss"]


def test_a_lost_note_makes_no_second_run(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    sync(edition, uri)
    (before,) = shown(edition, uri)
    (run.path / "mlflow.json").unlink()
    assert pending(edition, uri)
    sync(edition, uri)
    (after,) = shown(edition, uri)
    assert after.info.run_id == before.info.run_id


@pytest.mark.parametrize(
    "content", [b"", b'{"version": 1, "run', b"\x00\xff", b"[]", b'{"version": 1, "steps": [], "offset": -1}']
)
def test_an_unreadable_note_is_a_lost_one(edition: Edition, uri: str, content: bytes) -> None:
    (run,) = edition.runs()
    sync(edition, uri)
    (before,) = shown(edition, uri)
    for folder in (run.path, edition.path):
        (folder / "mlflow.json").write_bytes(content)
    write(run, range(5, 7))
    assert pending(edition, uri)
    sync(edition, uri)
    (after,) = shown(edition, uri)
    assert after.info.run_id == before.info.run_id
    assert curve(after, "train/loss", uri) == run.metrics()["train/loss"]
    assert not pending(edition, uri)


def test_a_lost_note_loses_no_points_that_repeat_the_last_one(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    sync(edition, uri)
    (run.path / "mlflow.json").unlink()
    for step in range(5, 8):
        run.append(step, {"train/loss": 1.0})
    sync(edition, uri)
    assert len(curve(shown(edition, uri)[0], "train/loss", uri)) == 7


def test_a_note_with_a_field_more_is_read(edition: Edition, uri: str) -> None:
    sync(edition, uri)
    path = edition.runs()[0].path / "mlflow.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"more": 1}))
    assert not pending(edition, uri)


def test_a_damaged_run_is_left_out_and_said_and_the_others_are_told(make: Callable[..., Edition], uri: str) -> None:
    edition = make()
    for run in edition.runs():
        finish(run)
    damaged, whole = edition.runs()
    (damaged.path / "record.json").write_text('{"version": 1, "status"')
    said: list[str] = []
    assert sync(edition, uri, said.append) == 1
    assert [run.data.tags["labkit.record"].partition(":")[2] for run in shown(edition, uri)] == [str(whole.path)]
    (line,) = said
    assert str(damaged.path / "record.json") in line
    assert not pending(edition, uri)


def test_lines_that_hold_no_metrics_are_said(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    finish(run)
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write("garbled\n")
    said: list[str] = []
    sync(edition, uri, said.append)
    assert said == [f"{run.path / 'metrics.jsonl'}: 1 line holds no metrics and is left out"]


def test_a_run_that_another_took_the_place_of_leaves_no_point(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    finish(run)
    sync(edition, uri)
    (before,) = shown(edition, uri)
    planned = {key: value for key, value in run.record().items() if key not in ("final", "by_position", "ended")}
    spec = run.spec()
    run.clear()
    assert pending(edition, uri) is False
    data = {**planned["data"], "hash": "f" * 32}
    run.create(spec, {**planned, "status": "planned", "step": 0, "data": data})
    run.update(status="running", started=2000.0)
    write(run, range(1, 3), shift=0.5)
    assert pending(edition, uri)
    sync(edition, uri)
    (during,) = shown(edition, uri)
    assert during.info.run_id != before.info.run_id
    write(run, range(3, 5), shift=0.5)
    finish(run, started=2000.0)
    sync(edition, uri)
    (after,) = shown(edition, uri)
    assert after.info.run_id == during.info.run_id
    assert curve(after, "train/loss", uri) == run.metrics()["train/loss"]
    assert curve(after, "final/val_loss", uri) == [(0, 1.5)]
    assert after.inputs.dataset_inputs[0].dataset.digest == "f" * 32


def test_a_run_made_again_with_the_same_values_is_another_one_from_another_source(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    finish(run)
    sync(edition, uri)
    (before,) = shown(edition, uri)
    note = json.loads((run.path / "mlflow.json").read_text())
    note["origin"]["mlflow.source.git.commit"] = "as it was then"
    (run.path / "mlflow.json").write_text(json.dumps(note))
    finish(run, started=2000.0, ended=2010.0)
    sync(edition, uri)
    (after,) = shown(edition, uri)
    assert after.info.run_id != before.info.run_id
    assert (after.info.start_time, after.info.end_time) == (2_000_000, 2_010_000)
    assert after.data.tags.get("mlflow.source.git.commit") != "as it was then"


def test_a_run_deleted_in_the_ui_is_filled_again(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    finish(run)
    sync(edition, uri)
    MlflowClient(uri).delete_run(shown(edition, uri)[0].info.run_id)
    assert sync(edition, uri) == 1
    assert curve(shown(edition, uri)[0], "train/loss", uri) == run.metrics()["train/loss"]


def test_an_experiment_deleted_in_the_ui_comes_back(edition: Edition, uri: str) -> None:
    sync(edition, uri)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(edition.title)
    assert experiment is not None
    client.delete_experiment(experiment.experiment_id)
    sync(edition, uri)
    assert len(shown(edition, uri)) == 1


def test_a_record_that_says_otherwise_gets_a_run_of_its_own(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    sync(edition, uri)
    (before,) = shown(edition, uri)
    (run.path / "metrics.jsonl").unlink()
    write(run, range(1, 3), shift=0.5)
    sync(edition, uri)
    (after,) = shown(edition, uri)
    assert after.info.run_id != before.info.run_id
    assert curve(after, "train/loss", uri) == [(1, 4.5), (2, 2.5)]


def test_points_that_are_not_finite_arrive_as_nan(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    run.append(5, {"train/loss": math.inf})
    finish(run, status="diverged", diverged_at=5, final={"val/loss": None})
    sync(edition, uri)
    assert sync(edition, uri) == 0
    (there,) = shown(edition, uri)
    assert math.isnan(there.data.metrics["train/loss"])
    assert math.isnan(there.data.metrics["final/val_loss"])
    assert there.data.tags.items() >= {"diverged": "true", "diverged_at": "5"}.items()


def test_more_points_than_a_batch_holds_arrive(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    lines = [json.dumps({"step": step, "time": 1000.0 + step, "train/loss": 1 / step}) for step in range(5, 1205)]
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write("\n".join(lines) + "\n")
    sync(edition, uri)
    assert curve(shown(edition, uri)[0], "train/loss", uri) == run.metrics()["train/loss"]


def test_what_changes_about_a_run_is_told_and_parameters_stay(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    sync(edition, uri)
    run.update(label="theta=ten thousand", varied={"model.position.theta": 5.0}, error="x" * 9000, status="failed")
    sync(edition, uri)
    (there,) = shown(edition, uri)
    assert there.data.params["theta"] == "10000"
    assert len(there.data.tags["error"]) == 500


def test_an_arm_that_the_experiment_no_longer_has_stands_apart(edition: Edition, uri: str) -> None:
    description = edition.description()
    description["arms"][0]["fingerprint"] = "another"
    edition.describe(description)
    sync(edition, uri)
    assert shown(edition, uri)[0].data.tags["variant"] == "baseline (earlier 000000)"


def test_the_experiment_carries_the_report_and_opens_on_its_charts(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    finish(run)
    sync(edition, uri)
    Board("board/verdicts", "| variant | val/loss |", (), ()).write(edition.path)
    assert pending(edition, uri)
    sync(edition, uri)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(edition.title)
    assert experiment is not None
    assert experiment.tags["mlflow.note.content"].startswith("| variant | val/loss |")
    assert experiment.tags["mlflow.sharedViewState.labkit"].startswith("deflate;")


def test_who_ran_it_from_where_outlives_the_store(edition: Edition, uri: str) -> None:
    (run,) = edition.runs()
    sync(edition, uri)
    note = json.loads((run.path / "mlflow.json").read_text())
    note["origin"]["mlflow.source.git.commit"] = "as it was then"
    (run.path / "mlflow.json").write_text(json.dumps(note))
    MlflowClient(uri).delete_run(note["run_id"])
    sync(edition, uri)
    assert shown(edition, uri)[0].data.tags["mlflow.source.git.commit"] == "as it was then"


def test_a_store_that_is_gone_is_pending(edition: Edition, uri: str, tmp_path: Any) -> None:
    finish(edition.runs()[0])
    sync(edition, uri)
    assert pending(edition, f"sqlite:///{tmp_path}/elsewhere.db")


def test_a_folder_that_moves_keeps_its_runs(edition: Edition, uri: str, tmp_path: Any) -> None:
    sync(edition, uri)
    shutil.move(edition.path, tmp_path / "moved" / edition.name / "main")
    moved = Edition(tmp_path / "moved" / edition.name / "main")
    sync(moved, uri)
    assert len(shown(moved, uri)) == 1
    assert Sidecar.read(moved.runs()[0].path).run_id == shown(moved, uri)[0].info.run_id
