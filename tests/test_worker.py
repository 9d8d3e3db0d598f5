"""The worker as a process: what it answers, when it leaves, and that a killed one loses nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.components import Norm
from labkit.tracking.record import Run
from labkit.tracking.source import capture
from labkit.train.distributed import Group
from labkit.train.run import Runtime
from labkit.worker import Worker, main
from tests.specs import TINY

LITTLE = {
    **TINY,
    "model": {**TINY["model"], "d_model": 8, "n_layers": 1},
    "batch_size": 2,
    "evaluation": {"points": 4, "windows": 4},
}
LONG = {"budget": {"kind": "steps", "steps": 400}}
ENDLESS = {"budget": {"kind": "steps", "steps": 10**6}}

NORM = '''
from typing import Literal

from torch import nn

from labkit.components import Norm


class {name}(Norm):
    """x times {scale}."""

    kind: Literal["{kind}"] = "{kind}"

    def build(self, width, place):
        norm = nn.Identity()
        norm.forward = lambda x: {scale} * x
        return norm
'''


@pytest.fixture(autouse=True)
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("".join(f"{n * n} is the square of {n}.\n" for n in range(300)))


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Run]:
    """Plans a run with top-level changes to the tiny spec, and files of the user's."""

    def planned(name: str = "run", changes: dict[str, Any] | None = None, sources: dict[str, str] | None = None) -> Run:
        run, root = Run(tmp_path / name), tmp_path / "project"
        for relative, text in (sources or {}).items():
            (root / relative).parent.mkdir(parents=True, exist_ok=True)
            (root / relative).write_text(text)
        hashes = capture(run.source, {relative: root / relative for relative in sources or {}})
        run.create({**LITTLE, **(changes or {})}, {"base": str(tmp_path), "sources": hashes})
        return run

    return planned


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a worker process that is gone when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: object, **runtime: Any) -> subprocess.Popen[str]:
        settings = json.dumps({"device": "cpu", **runtime})
        command = [sys.executable, "-m", "labkit.worker", "--runtime", settings, *map(str, arguments)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        with process:  # closes its pipes
            process.kill()


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets a test be the worker, and takes back what that leaves: signals, the search path, a user's norms."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(Norm, "variants", Norm.variants.copy())
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def answers(text: str) -> list[str]:
    lines = [json.loads(line) for line in text.splitlines()]
    return [line["status"] for line in lines if "run" in line]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def exact(run: Run) -> dict[str, Any]:
    """All that a run must repeat to the last digit."""
    final = {key: value for key, value in run.record()["final"].items() if not key.startswith("perf/")}
    curves = {key: points for key, points in run.metrics().items() if not key.startswith("perf/")}
    return {"final": final, "by_position": run.record()["by_position"], **curves}


@pytest.mark.usefixtures("untouched")
def test_runs_are_trained_one_after_another_and_answered(plan, capsys) -> None:
    runs = [plan("a"), plan("b", {"seed": 1})]
    assert main([str(run.path) for run in runs]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"run": str(run.path), "status": "done"} for run in runs]
    assert [run.record()["status"] for run in runs] == ["done", "done"]


@pytest.mark.usefixtures("untouched")
def test_a_finished_run_is_answered_without_being_trained(plan, capsys) -> None:
    run = plan()
    main([str(run.path)])
    before = run.record()
    main([str(run.path)])
    assert answers(capsys.readouterr().out) == ["done", "done"]
    assert run.record() == before


@pytest.mark.usefixtures("untouched")
def test_a_run_of_another_process_is_left_alone(plan, capsys) -> None:
    run = plan()
    with run.lock():
        main([str(run.path)])
    assert answers(capsys.readouterr().out) == ["busy"]
    assert run.record()["status"] == "planned"


@pytest.mark.usefixtures("untouched")
def test_a_crash_is_on_record_in_a_line_and_in_the_log_in_full(plan, capsys) -> None:
    run, next_run = plan("a", {"data": {"corpus": {"kind": "text", "path": "missing.txt"}}}), plan("b")
    main([str(run.path), str(next_run.path)])
    assert answers(capsys.readouterr().out) == ["failed", "done"]
    record = run.record()
    assert record["status"] == "failed"
    assert "missing.txt" in record["error"]
    assert "\n" not in record["error"]
    assert "Traceback" in run.console_log.read_text()


@pytest.mark.usefixtures("untouched")
def test_a_damaged_spec_is_answered_with_its_remedy_and_the_next_run_is_trained(plan, capsys) -> None:
    run, next_run = plan("a"), plan("b")
    (run.path / "spec.json").write_text("{")
    main([str(run.path), str(next_run.path)])
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["status"], second["status"]) == ("failed", "done")
    assert f"Remove the folder {run.path}" in first["error"]


@pytest.mark.usefixtures("untouched")
def test_a_spec_that_is_none_is_a_failure_that_names_the_field(plan, capsys) -> None:
    run = plan(changes={"model": {**LITTLE["model"], "norm": "rsm"}})
    main([str(run.path)])
    assert "model.norm: unknown Norm kind 'rsm'. Did you mean 'rms'?" in run.record()["error"]
    assert answers(capsys.readouterr().out) == ["failed"]


@pytest.mark.usefixtures("untouched")
def test_what_training_prints_goes_to_the_log_of_the_run(plan, capsys) -> None:
    source = NORM.format(name="Loud", kind="loud", scale=1) + "\nprint('loaded')\n"
    run = plan("a", {"model": {**LITTLE["model"], "norm": "loud"}}, {"loud_norm.py": source})
    main([str(run.path)])
    assert answers(capsys.readouterr().out) == ["done"]
    assert run.console_log.read_text().startswith("loaded\n")


@pytest.mark.usefixtures("untouched")
def test_a_stop_file_pauses_a_run_and_is_spent(plan, capsys) -> None:
    run = plan()
    run.request_stop()
    main([str(run.path)])
    assert run.record()["status"] == "paused"
    main([str(run.path)])
    assert answers(capsys.readouterr().out) == ["paused", "done"]


@pytest.mark.usefixtures("untouched")
def test_a_folder_without_a_run_is_answered_and_not_made(tmp_path: Path, capsys) -> None:
    main([str(tmp_path / "nowhere")])
    assert answers(capsys.readouterr().out) == ["failed"]
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.usefixtures("untouched")
def test_a_runtime_that_cannot_be_is_refused(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["--runtime", '{"device": "gpu"}'])
    assert "device: unknown device 'gpu'" in capsys.readouterr().err


@pytest.mark.usefixtures("untouched")
def test_other_sources_need_another_worker(plan, capsys) -> None:
    changes = {"model": {**LITTLE["model"], "norm": "mine"}}
    first = plan("a", changes, {"user_norm.py": NORM.format(name="Mine", kind="mine", scale=1)})
    same = plan("b", {**changes, "seed": 1}, {"user_norm.py": NORM.format(name="Mine", kind="mine", scale=1)})
    other = plan("c", changes, {"user_norm.py": NORM.format(name="Mine", kind="mine", scale=2)})
    assert main([str(run.path) for run in (first, same, other)]) == 0
    assert answers(capsys.readouterr().out) == ["done", "done", "reload"]
    assert other.record()["status"] == "planned"


@pytest.mark.usefixtures("untouched")
def test_a_killed_worker_loses_nothing(plan, start, capsys) -> None:
    whole, run = plan("whole", LONG), plan("killed", LONG)
    killed = start(run.path, checkpoint_seconds=0.1)
    wait_for(lambda: any(run.checkpoints.glob("step-*")) and len(run.metrics().get("train/loss", [])) > 60)
    killed.kill()
    killed.wait()
    assert run.record()["status"] == "running"
    assert not run.owned
    main(["--runtime", '{"device": "cpu"}', str(run.path), str(whole.path)])
    assert answers(capsys.readouterr().out) == ["done", "done"]
    assert "from step 0 of" not in run.console_log.read_text().splitlines()[-1]
    assert exact(run) == exact(whole)
    assert [step for step, _ in exact(run)["train/loss"]] == list(range(1, 401))


def test_a_worker_whose_driver_is_gone_checkpoints_and_leaves(plan, start) -> None:
    run, waiting = plan("a", ENDLESS), plan("b")
    worker = start()
    worker.stdin.write(f"{run.path}\n{waiting.path}\n")
    worker.stdin.flush()
    wait_for(lambda: bool(run.metrics()))
    worker.stdin.close()
    assert worker.wait(timeout=30) == 0
    assert answers(worker.stdout.read()) == ["paused"]
    assert run.record()["status"] == "paused"
    assert list(run.checkpoints.glob("step-*"))
    assert waiting.record()["status"] == "planned"


def test_what_code_writes_and_reads_beneath_python_is_no_answer_and_no_run(plan, start) -> None:
    source = "import os, sys\nos.write(1, b'{no answer\\n')\nassert sys.stdin.read() == ''\nsys.stdin.close()\n"
    run, other = plan("a", sources={"user_norm.py": source}), plan("b", sources={"user_norm.py": source})
    worker = start()
    worker.stdin.write(f"{run.path}\n{other.path}\n")
    worker.stdin.flush()
    assert [json.loads(worker.stdout.readline())["status"] for _ in range(2)] == ["done", "done"]


@pytest.mark.parametrize(("was", "told"), [("running", "failed"), ("done", "done")])
def test_a_worker_that_loses_a_rank_fails_what_is_not_at_its_end_and_leaves(plan, monkeypatch, was, told) -> None:
    run, said, left = plan(), [], []
    run.console_of(1).write_text("Traceback")
    run.console_of(2).touch()
    worker = amid(run, was, said)
    monkeypatch.setattr(os, "_exit", left.append)
    worker.lose("rank 1 is gone")
    assert (run.record()["status"], said[-1]["status"], left) == (told, told, [1])
    log = run.console_log.read_text() if run.console_log.exists() else ""
    assert log == ("rank 1 is gone\nwhat was printed there is in console-1.log\n" if told == "failed" else "")


def test_a_worker_that_loses_a_rank_leaves_also_where_it_can_write_nothing(plan, monkeypatch) -> None:
    run, left = plan(), []
    worker = amid(run, "running", [])
    monkeypatch.setattr(os, "_exit", left.append)
    run.console_log.mkdir()
    with pytest.raises(IsADirectoryError):
        worker.lose("rank 1 is gone")
    assert left == [1]


def amid(run: Run, status: str, said: list[dict[str, Any]]) -> Worker:
    """A worker of a group, which is at a run."""
    worker = Worker(Runtime(device="cpu"), said.append)
    worker.group = Group()
    worker.group.is_amid = True
    worker._begin(run.path)
    run.update(status=status)
    return worker


def test_a_worker_told_to_leave_checkpoints_first(plan, start) -> None:
    run = plan(changes=ENDLESS)
    worker = start(run.path)
    wait_for(lambda: bool(run.metrics()))
    worker.send_signal(signal.SIGINT)
    assert answers(worker.communicate(timeout=30)[0]) == ["paused"]
    assert worker.returncode == 0
    assert list(run.checkpoints.glob("step-*"))


def test_an_idle_worker_leaves_when_told(plan, start) -> None:
    worker, run = start(), plan()
    worker.stdin.write(f"{run.path}\n")
    worker.stdin.flush()
    assert json.loads(worker.stdout.readline())["status"] == "done"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=60) == 0
