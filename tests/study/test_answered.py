"""Runs that were made for another experiment and answer for one of this."""

import socket
from pathlib import Path
from typing import Any

import pytest

from labkit.report.comparison import compare
from labkit.study import runner as runner_module
from labkit.study.forecast import forecast
from labkit.tracking.record import Edition, Run
from labkit.train.device import versions
from tests.study.test_runner import NoMirror, Write, drive, driver


@pytest.fixture(autouse=True)
def _no_mlflow(no_drawings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module.mlflow, "Mirror", NoMirror)
    monkeypatch.setattr(runner_module.mlflow, "pending", lambda *_: False)


def test_a_run_made_for_another_experiment_answers_with_all_that_it_left(
    project: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    code = """
from experiments.baselines import pico
from labkit import Experiment, vary

experiment = Experiment(
    baseline=pico, variants=vary({path!r}, {values}), seeds=2, metric="val/loss", match="none"
)
"""
    first = write(code.format(path="optimizer.lr", values=[1e-2]), "first.py")
    second = write(code.format(path="clip", values=[0.5]), "second.py")
    runs = project / "runs"
    assert not drive(first, runs).failed
    ahead = driver(second, runs)
    assert [forecast(ahead).states[job] for job in ahead.jobs] == ["answered", "new"] * 2
    capsys.readouterr()
    assert not drive(second, runs).failed
    told = capsys.readouterr().err
    assert "2 runs answered by first: the same spec, text and sources; --fresh trains them here" in told
    assert "baseline · seed 0" not in told
    found = compare(Edition(runs / "second" / "main"))
    assert ("shared", "baseline: trained for first, of the same spec, text and sources.") in [
        (note.kind, note.text) for note in found.notes
    ]
    for seed in (0, 1):
        [old], [new] = (list(runs.glob(f"{name}/main/baseline/seed{seed}-*")) for name in ("first", "second"))
        for name in ("metrics.jsonl", "documents.npz", "checkpoints/final.safetensors", "source/experiments/first.py"):
            assert (new / name).read_bytes() == (old / name).read_bytes()
        assert Run(new).record()["final"] == Run(old).record()["final"]
        assert Run(new).record()["experiment"] == "second"


@pytest.mark.parametrize(
    "differs",
    [{"host": "elsewhere"}, {"device": "NVIDIA H200"}, {"versions": {"torch": "2.0"}}, {"status": "failed"},
     {"labkit_sources": {}}, {"data": {"hash": "other"}}, {"runtime": {"mode": "fast"}}],
)  # fmt: skip
def test_a_run_of_other_conditions_answers_for_none(project: Path, differs: dict[str, Any]) -> None:
    runs = project / "runs"
    made = driver(project / "experiments" / "theta.py", runs)
    made.prepare()
    job, runtime = made.jobs[0], made.slots[0].runtime
    other = Edition(runs / "first" / "main").run("baseline", 0, job.fingerprint)
    other.create(job.spec.as_json(), made.planner.facts(job, made.store(job), made.sources))
    known = {"host": socket.gethostname(), "device": "cpu", "versions": versions(), "runtime": runtime.as_json()}
    other.update(status="done", sessions=[{"mode": "exact"}], **known)
    assert made.answered(job) == other
    other.update(**differs)
    assert made.answered(job) is None


def test_a_component_of_ones_own_answers_only_where_nothing_that_it_may_rest_on_has_changed(
    project: Path, write: Write
) -> None:
    norm = """
from typing import Literal
from experiments.tools import eps
from labkit import Norm
from torch import nn

class Mine(Norm):
    kind: Literal["mine"] = "mine"
    def build(self, width, place): return nn.LayerNorm(width, eps=eps)
"""
    code = """
from experiments.baselines import pico
from experiments.norms import Mine
from labkit import Experiment

own = {"own": {"model.norm": Mine()}}
experiment = Experiment(baseline=pico, variants=own, seeds=1, metric="val/loss", match="none")
"""
    tools = write("eps = 1e-5", "tools.py")
    write(norm, "norms.py")
    first, second = write(code, "first.py"), write(code, "second.py")
    assert not drive(first, project / "runs").failed
    made = driver(second, project / "runs")
    made.prepare()
    assert [made.answered(job) is not None for job in made.jobs] == [True, True]
    tools.write_text("eps = 1e-3")
    made.sources = made.planner.hashes()
    assert [made.answered(job) is not None for job in made.jobs] == [True, False]
