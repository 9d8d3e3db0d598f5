"""The driver: what is trained, what is not, and how it ends. Without MLflow; with real workers where it matters."""

import errno
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labkit.report.comparison import compare
from labkit.spec import Mistake
from labkit.study import crew
from labkit.study import runner as runner_module
from labkit.study.editions import Asked, edition
from labkit.study.executors import Answer, Slot
from labkit.study.loading import load
from labkit.study.runner import Options, Outcome, Runner
from labkit.tracking.console import Console
from labkit.tracking.record import Edition, Run
from labkit.tracking.source import hashes
from labkit.tracking.source import load as load_source
from labkit.train.run import Runtime

Write = Callable[..., Path]


class NoMirror:
    """An MLflow that nobody looks at."""

    error = None

    def __init__(self, *_: object) -> None: ...
    def start(self) -> None: ...
    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _no_mlflow(no_drawings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module.mlflow, "Mirror", NoMirror)
    monkeypatch.setattr(runner_module.mlflow, "pending", lambda *_: False)


class Instant:
    """A worker that is done at once, and alive as long as it is wanted."""

    is_alive, room = True, 1

    def __init__(self, slot: Slot) -> None: ...
    def leave(self) -> None: ...
    def end(self) -> None: ...

    def give(self, run: Run) -> None:
        self.run = run
        with run.lock():
            data = run.record()["data"]["hash"]
            run.update(status="done", started=time.time(), seconds=1.0, final={"val/loss": int(data[:4], 16) / 1e4})

    def answer(self, seconds: float) -> tuple[Path, Answer]:
        return self.run.path, Answer("done")


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "Worker", Instant)


def driver(file: Path, runs: Path, asked: Asked = Asked(), **options: Any) -> Runner:  # noqa: B008
    loaded, name = edition(load(file), asked)
    fields: dict[str, Any] = {"command": "labkit run", "workers": 1, **options}
    fields.setdefault("runtime", Runtime(device="cpu"))
    return Runner(loaded, name, Options(runs, **fields), Console())


def drive(file: Path, runs: Path, asked: Asked = Asked(), **options: Any) -> Outcome:  # noqa: B008
    return driver(file, runs, asked, **options).run()


def finals(runs: Path) -> dict[str, float]:
    """Variant -> what its one run came to."""
    records = [json.loads(path.read_text()) for path in sorted(runs.glob("*/*/*/*/record.json"))]
    return {record["variant"]: record["final"]["val/loss"] for record in records}


def test_runs_are_planned_seed_by_seed_and_described(project: Path) -> None:
    made = driver(project / "experiments" / "theta.py", project / "runs")
    order = [(job.counted.arm.name, job.seed) for job in made.jobs]
    assert order == [(arm, seed) for seed in (0, 1) for arm in ("baseline", "theta=1000", "theta=500000")]
    assert not (project / "runs").exists()


@pytest.mark.usefixtures("instant")
@pytest.mark.parametrize(("precision", "times"), [("bf16", 1), ("fp32", 0)])
def test_that_a_cpu_is_slow_at_bf16_is_said_once(
    project: Path, capsys: pytest.CaptureFixture[str], precision: str, times: int
) -> None:
    drive(project / "experiments" / "theta.py", project / "runs", Asked(sets=[f"precision={precision}"]))
    assert capsys.readouterr().err.count("bf16 is slow on a CPU; --set precision=fp32 is faster here") == times


@pytest.mark.usefixtures("instant")
def test_only_what_is_missing_is_trained(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, runs = project / "experiments" / "theta.py", project / "runs"
    assert not drive(file, runs, Asked(seeds=1), only=["baseline", "theta=1000"]).failed
    first = finals(runs)
    assert list(first) == ["baseline", "theta=1000"]
    times = {path: path.stat().st_mtime_ns for path in runs.glob("*/*/*/*/*.json*")}
    capsys.readouterr()
    drive(file, runs, Asked(seeds=1))
    told = capsys.readouterr().err
    assert "2 of 3 runs are finished already" in told
    assert "theta=500000 · seed 0" in told
    assert "baseline · seed 0" not in told
    assert {path: path.stat().st_mtime_ns for path in times} == times
    description = json.loads((runs / "theta" / "main" / "experiment.json").read_text())
    assert [arm["name"] for arm in description["arms"]] == ["baseline", "theta=1000", "theta=500000"]
    assert description["arms"][1]["changes"] == {"model.position.theta": ["10000", "1000"]}
    assert description["arms"][1]["varied"] == {"model.position.theta": 1000.0}
    assert (description["looks"], description["margin"]) == ([], 0.005)
    assert not any(arm["placebo"] for arm in description["arms"])
    assert (description["question"], description["file"]) == ("Does theta matter at 32 tokens?", "experiments/theta.py")
    record = json.loads(next(runs.glob("theta/main/theta=1000/seed0-*/record.json")).read_text())
    arm = description["arms"][1]
    assert (record["arm"], record["steps"], record["params"]) == (arm["fingerprint"], arm["steps"], arm["params"])
    assert sorted(record["sources"]) == ["experiments/baselines.py", "experiments/theta.py"]


@pytest.mark.usefixtures("instant")
def test_the_matched_run_is_what_is_trained_and_recorded(
    project: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = "{'layer': {'model.norm': 'layer', 'model.feedforward.multiple_of': 32}}"
    call = f"baseline=pico, variants={variants}, seeds=1, metric='val/loss', match='params'"
    file = write(
        f"from experiments.baselines import pico\nfrom labkit import Experiment\nexperiment = Experiment({call})"
    )
    assert not drive(file, project / "runs", Asked()).failed
    description = json.loads((project / "runs" / "mine" / "main" / "experiment.json").read_text())
    baseline, arm = description["arms"]
    assert baseline["matched"] is None
    assert (arm["name"], arm["label"]) == ("layer", "layer, d_ff 48")
    assert arm["changes"]["model.feedforward.d_ff"] == ["None", "48"]
    assert arm["matched"]["residual_percent"] == pytest.approx(100 * 48 / 7488)
    assert arm["matched"]["written"]["params"] == 7488 + 48 + 3 * 16 * 16
    [spec] = (project / "runs").glob("mine/main/layer/seed0-*/spec.json")
    assert json.loads(spec.read_text())["spec"]["model"]["feedforward"]["d_ff"] == 48
    record = json.loads((spec.parent / "record.json").read_text())
    assert (record["variant"], record["label"]) == ("layer", "layer, d_ff 48")
    assert (record["arm"], record["params"]) == (arm["fingerprint"], 7536)
    assert compare(Edition(project / "runs" / "mine" / "main")).matched == "params within 0.65 %, worth < .05 nats"


@pytest.mark.usefixtures("instant")
def test_changed_sources_are_said_and_run_again_when_asked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, runs = project / "experiments" / "theta.py", project / "runs"
    drive(file, runs, Asked(seeds=1), only=["baseline"])
    record = next(runs.glob("theta/main/baseline/seed0-*/record.json"))
    before = json.loads(record.read_text())
    file.write_text(file.read_text() + "\n# another line\n")
    capsys.readouterr()
    drive(file, runs, Asked(seeds=1), only=["baseline"])
    assert "experiments/theta.py changed since runs were finished with it; --fresh" in capsys.readouterr().err
    assert json.loads(record.read_text()) == before
    drive(file, runs, Asked(seeds=1), only=["baseline"], fresh=True)
    after = json.loads(record.read_text())
    assert after["sources"] != before["sources"]
    assert after["started"] > before["started"]


@pytest.mark.usefixtures("instant")
def test_a_script_beside_known_sources_is_no_change(
    project: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file, runs = project / "experiments" / "theta.py", project / "runs"
    script = write("from experiments.theta import experiment", "script.py")
    driver(file, runs, Asked(seeds=1), only=["baseline"]).run()
    load_source(script, project)
    capsys.readouterr()
    made = driver(file, runs, Asked(seeds=1), only=["baseline"], asked_anew="fresh=True")
    made.run()
    assert "experiments/script.py" in made.sources
    assert "changed" not in capsys.readouterr().err
    file.write_text(file.read_text() + "\n# another line\n")
    driver(file, runs, Asked(seeds=1), only=["baseline"], asked_anew="fresh=True").run()
    told = capsys.readouterr().err
    assert "experiments/theta.py changed since runs were finished with it; fresh=True runs those again" in told


@pytest.mark.usefixtures("instant")
def test_what_a_script_brought_along_is_no_change_without_it_and_where_a_component_lies_is(
    project: Path, write: Write
) -> None:
    imports = "from typing import Literal\nfrom labkit.components.norm import Rms\n"
    write(f"{imports}class Mine(Rms):\n    kind: Literal['mine'] = 'mine'")
    call = "baseline=pico.patched({'model.norm': 'mine'}), variants={}, seeds=1, metric='val/loss', match='none'"
    imports = "from experiments.baselines import pico\nfrom labkit import Experiment\nimport experiments.mine\n"
    file, runs = write(f"{imports}experiment = Experiment({call})", "normed.py"), project / "runs"
    made = driver(file, runs)
    made.run()
    [job], run = made.jobs, made.jobs[0].run
    known = run.record()["sources"]
    script = write("# runs it", "script.py")
    run.update(sources={**known, **hashes({"experiments/script.py": script})})
    assert made.planner.changed(job) == []
    script.write_text("# runs it again")
    assert made.planner.changed(job) == ["experiments/script.py"]
    run.update(sources={place: digest for place, digest in known.items() if place != "experiments/mine.py"})
    assert made.planner.changed(job) == ["experiments/mine.py"]


@pytest.mark.usefixtures("instant")
def test_an_arm_that_is_scored_on_another_text_gets_no_verdict(project: Path, write: Write) -> None:
    file = write("""
from experiments.baselines import pico
from labkit import Experiment

variants = {"more": {"data.validation": 0.2}, "clip": {"clip": 0.5}}
experiment = Experiment(baseline=pico, variants=variants, seeds=2, metric="val/loss", match="none")
""")
    assert not drive(file, project / "runs").failed
    more, clip = compare(Edition(project / "runs" / "mine" / "main")).arms[1:]
    assert (more.verdict.word, clip.verdict.word != "none") == ("none", True)
    assert more.verdict.reason.startswith("scored on another text than the baseline")


@pytest.mark.usefixtures("instant")
def test_changed_data_makes_it_another_run(project: Path) -> None:
    file, runs = project / "experiments" / "theta.py", project / "runs"
    drive(file, runs, Asked(seeds=1), only=["baseline"])
    before = finals(runs)
    (project / "text" / "0.txt").write_text("something else " * 100)
    drive(file, runs, Asked(seeds=1), only=["baseline"])
    assert finals(runs).keys() == before.keys()
    assert finals(runs) != before


@pytest.mark.parametrize(
    ("copies", "told"),
    [
        (0, ""),
        (1, " 1 exact copy was left out of the documents."),
        (3, " 3 exact copies were left out of the documents."),
    ],
)
def test_a_split_that_is_too_short_tells_how_many_copies_were_left_out(project: Path, copies: int, told: str) -> None:
    for file in (project / "text").iterdir():
        file.unlink()
    (project / "text" / "own.txt").write_text("a b c " * 20)
    for index in range(copies + 1):
        (project / "text" / f"{index}.txt").write_text("d e f " * 20)
    made = driver(project / "experiments" / "theta.py", project / "runs", Asked(sets=["model.context=512"]))
    with pytest.raises(Mistake) as raised:
        made.prepare()
    assert "fewer than one window of context + 1 = 513" in str(raised.value)
    assert str(raised.value).partition("write a context of at most ")[2].partition(".")[2] == told


BROKEN = '''
import sys
from typing import Literal
from torch import nn
from experiments.baselines import pico
from labkit import Experiment, Norm, Place

class Broken(Norm):
    """Fails when it is used."""
    kind: Literal["broken"] = "broken"
    def build(self, width: int, place: Place) -> nn.Module:
        return Fails()

class Fails(nn.Module):
    def forward(self, x):
        if getattr(sys.modules["__main__"], "__file__", "").endswith("worker.py"):  # not where it is tried before
            raise ZeroDivisionError("as it was meant to")
        return x

experiment = Experiment(
    baseline=pico,
    variants={"a": {"model.norm": "broken"}, "b": {"clip": 0.5}},
    seeds=1, metric="val/loss", match="none"
)
'''


def test_one_failing_run_does_not_take_the_others_with_it(
    project: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(BROKEN, "broken.py")
    outcome = drive(file, project / "runs")
    assert [job.counted.arm.name for job in outcome.failed] == ["a"]
    statuses = {
        p.parent.parent.name: json.loads(p.read_text())["status"] for p in project.glob("runs/*/*/*/*/record.json")
    }
    assert statuses == {"baseline": "done", "a": "failed", "b": "done"}
    told = capsys.readouterr().err
    assert "ZeroDivisionError: as it was meant to" in told
    assert "console.log" in told


def test_a_worker_may_have_several_runs_at_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, together = project / "runs", Runtime(device="cpu", side_by_side=2)
    outcome = drive(project / "experiments" / "theta.py", runs, Asked(seeds=1), runtime=together)
    assert not outcome.failed
    records = [json.loads(path.read_text()) for path in runs.glob("*/*/*/*/record.json")]
    assert [record["status"] for record in records] == ["done"] * 3
    assert max(record["side_by_side"] for record in records) == 2
    assert capsys.readouterr().err.count("  done  val/loss") == 3


@pytest.mark.usefixtures("instant")
@pytest.mark.parametrize(("status", "taken"), [("planned", True), ("failed", True), ("paused", False)])
def test_only_a_run_under_way_keeps_the_sources_that_started_it(project: Path, status: str, taken: bool) -> None:
    file, runs = project / "experiments" / "theta.py", project / "runs"
    made = driver(file, runs, Asked(seeds=1), only=["baseline"])
    made.run()
    run, before = made.jobs[0].run, made.jobs[0].run.record()
    run.update(status=status)
    file.write_text(file.read_text() + "\n# mended\n")
    drive(file, runs, Asked(seeds=1), only=["baseline"])
    assert run.record()["status"] == "done"
    assert (run.record()["sources"] != before["sources"]) is taken
    assert ("# mended" in (run.source / "experiments" / "theta.py").read_text()) is taken


@pytest.mark.usefixtures("instant")
@pytest.mark.parametrize("fresh", [False, True])
def test_a_failed_run_with_a_checkpoint_goes_on_with_its_own_sources(
    project: Path, fresh: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    file, runs = project / "experiments" / "theta.py", project / "runs"
    made = driver(file, runs, Asked(seeds=1), only=["baseline"])
    made.run()
    run, before = made.jobs[0].run, made.jobs[0].run.record()
    run.update(status="failed")
    (run.checkpoints / "step-000000010").mkdir(parents=True)
    file.write_text(file.read_text() + "\n# mended\n")
    drive(file, runs, Asked(seeds=1), only=["baseline"], fresh=fresh)
    assert run.record()["status"] == "done"
    assert (run.record()["sources"] != before["sources"]) is fresh
    assert "experiments/theta.py changed; unfinished runs go on" in capsys.readouterr().err


def test_a_full_disk_is_told_with_the_runs_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    made = driver(project / "experiments" / "theta.py", project / "runs", only=["baseline"])
    monkeypatch.setattr(type(made.planner), "plan", full)
    with pytest.raises(OSError, match=r"No space left on device: .*runs") as caught:
        made.run()
    assert caught.value.filename == str(project / "runs")


@pytest.mark.usefixtures("instant")
def test_a_run_in_other_hands_is_waited_for(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, runs = project / "experiments" / "theta.py", project / "runs"
    made = driver(file, runs, Asked(seeds=1), only=["baseline"])
    lock = made.jobs[0].run.lock()
    lock.__enter__()
    threading.Timer(0.5, lambda: lock.__exit__(None, None, None)).start()
    assert not made.run().failed
    told = capsys.readouterr().err
    assert told.index("is being trained by another process") < told.index("done  val/loss")


def test_devices_and_folders_are_checked_before_anything_starts(project: Path) -> None:
    file = project / "experiments" / "theta.py"
    loaded, name = edition(load(file), Asked())
    (project / "runs").write_text("a file")
    with pytest.raises(Mistake, match=r"--runs .*runs: cannot write there: Not a directory"):
        driver(file, project / "runs")
    for device, told in [("cuda", "there is no CUDA device here"), ("cuda:3", "CUDA device")]:
        if device == "cuda" and runner_module.slots(Runtime(device="auto"))[0].runtime.device == "cuda":
            continue
        with pytest.raises(Mistake, match=f"--device {device}: .*{told}"):
            Runner(loaded, name, Options(project / "r", Runtime(device=device), "labkit run"), Console())
    with pytest.raises(Mistake, match=r"--only thet=1000: no such variant\. Did you mean 'theta=1000'"):
        driver(file, project / "r", only=["thet=1000"])


def test_tokenizers_at_unequal_bytes_and_flops_are_refused_before_anything_is_planned(
    project: Path, write: Write
) -> None:
    file = write("""
from experiments.baselines import pico
from labkit import Experiment

experiment = Experiment(
    baseline=pico, variants={"bpe": {"tokenizer": {"kind": "bpe", "vocab_size": 262}}}, seeds=2,
    metric="val/bpb", match="none",
)
""")
    with pytest.raises(Mistake, match=r"variant 'bpe': tokenizer: .*'budget': \{'kind': 'tokens', 'tokens': \d+\}"):
        drive(file, project / "runs")
    assert not list(project.glob("runs/**/record.json"))
