"""Arms at their best: tuned each on its own, compared on other seeds."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from labkit.report.comparison import compare
from labkit.study import crew
from labkit.study import runner as study_runner
from labkit.study.runner import Options, Runner
from labkit.sweep.runner import Searched
from labkit.sweep.winners import verdict_of
from labkit.tracking.console import Console
from labkit.tracking.record import Edition
from labkit.train.run import Runtime
from tests.sweep.conftest import NoMirror, Synthetic, Write, made

pytestmark = pytest.mark.usefixtures("synthetic", "no_page")

COMPARE = """
sweep = Sweep(base=pico, scientific={"model.norm": ["rms", "layer"]},
              nuisance={"optimizer.lr": log_uniform(%s), "schedule.warmup": uniform(0.0, 0.3)},
              trials=8, minimize="val/loss", mode="compare", seeds=3)
"""
TUNED = """
experiment = Experiment(
    baseline=pico, variants={"layer": {"model.norm": "layer"}}, seeds=3, metric="val/loss", match="params",
    tolerance=0.05,
    tune=Tune(nuisance={"optimizer.lr": log_uniform(1e-3, 8e-2)}, trials=6),
)
"""


@pytest.fixture(autouse=True)
def _instant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "Worker", Synthetic)
    monkeypatch.setattr(study_runner.files, "write", lambda _: None)
    monkeypatch.setattr(study_runner.mlflow, "Mirror", NoMirror)
    monkeypatch.setattr(study_runner.mlflow, "pending", lambda *_: False)


def settled(file: Path) -> tuple[Searched, Edition]:
    runner = made(file)
    outcome, searched = runner.run()
    assert not outcome.failed
    loaded = verdict_of(runner.loaded, searched.winners)
    options = Options(file.parents[1] / "runs", Runtime(device="cpu"), "labkit sweep", workers=1)
    experiment = Runner(loaded, "main", options, Console())
    experiment.run()
    return searched, experiment.edition


@pytest.mark.parametrize("code", [COMPARE % "1e-3, 8e-2", TUNED])
def test_every_arm_is_at_its_best_and_compared_on_seeds_that_it_was_not_tuned_on(write_sweep: Write, code: str) -> None:
    searched, edition = settled(write_sweep(code))
    assert len({len(branch.known) for branch in searched.branches}) == 1
    tuned = {run.record()["seed_index"] for run in searched.edition.runs()}
    fresh = {run.record()["seed_index"] for run in edition.runs()}
    assert fresh == {0, 1, 2}
    assert tuned == {1_000_000}
    choices = {
        (run.spec()["model"]["norm"]["kind"], run.record()["varied"]["model.norm"]) for run in searched.edition.runs()
    }
    assert choices == {("rms", "rms"), ("layer", "layer")}
    for branch in searched.branches:
        [lr] = {run.spec()["optimizer"]["lr"] for run in edition.runs() if run.path.parent.name == branch.arm.name}
        best = branch.best
        assert best is not None
        assert lr == best.params["optimizer.lr"]
    comparison = compare(edition)
    assert comparison.variants[0].verdict.word == "win"
    assert len(compare(edition).arms) == 2
    told = dict(comparison.footing)["tuned"].split("; ")
    assert [one.partition(" ")[0] for one in told] == [branch.arm.name for branch in searched.branches]
    assert all(re.search(r" lr=0\.\d+.* \(best of \d trials\)$", one) for one in told), told
    assert not any(winner.edges for winner in searched.winners)


def test_an_edge_beyond_which_nothing_is_valid_is_none(write_sweep: Write) -> None:
    _, searched = made(write_sweep((COMPARE % "1e-3, 8e-2").replace("trials=8", "trials=2"))).run()
    for winner in searched.winners:
        winner.trial.params["schedule.warmup"] = 0.0
        assert "schedule.warmup" in winner.branch.space.edges(winner.trial.params)
        assert "schedule.warmup" not in winner.edges


def test_an_optimum_at_the_edge_gets_no_verdict(write_sweep: Write) -> None:
    searched, edition = settled(write_sweep(COMPARE % "1e-3, 3e-3"))
    assert all("optimizer.lr" in winner.edges for winner in searched.winners)
    assert not any(replace(winner, margin=10.0).edges for winner in searched.winners)  # nothing hangs on it
    verdict = compare(edition).variants[0].verdict
    assert verdict.word == "none"
    assert "at the upper edge of 0.001 to 0.003" in verdict.reason
    assert "write nuisance={'optimizer.lr': log_uniform(0.001, 0.03)}" in verdict.reason
