"""Experiments run from Python: which source is kept, what a notebook sees, and what cannot be."""

import json
import os
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from torch import nn

from labkit import Experiment, Norm, Place, Tune
from labkit.spec import Mistake
from labkit.study import driving
from labkit.study.driving import placed
from labkit.study.loading import load
from labkit.tracking.record import Edition
from labkit.train.run import Runtime
from tests.report.conftest import DESCRIPTION, Synthetic

SCRIPT = """
from threading import Thread
from types import SimpleNamespace
from experiments.theta import experiment
from labkit import results
from labkit.report.page import Drawings
from labkit.tracking import mlflow

Drawings.of = lambda _: Drawings([], [], [])
nobody = SimpleNamespace(start=lambda: None, close=lambda: None, error=None)
mlflow.Mirror, mlflow.pending = (lambda *_: nobody), (lambda *_: False)

found = experiment.run("mine", workers=1, seeds=1, only=["baseline", "theta=1000"])
assert list(found.arms.index) == ["baseline", "theta=1000"], found.arms
assert found.runs["status"].eq("done").all()
assert "<table>" in found._repr_html_() and "theta=1000" in found._repr_html_()
assert repr(found) == "Results of mine: .arms, .runs and .curves are pandas frames"
page = experiment.report("mine")
assert page.path.exists() and page._repr_html_().startswith("<iframe srcdoc=")
assert results("mine").comparison.hash == found.comparison.hash

thread = Thread(target=lambda: experiment.run("mine", workers=1, steps=2, seeds=1, only=["baseline"]))
thread.start()
thread.join()
assert experiment.report("mine", steps=2).path.parent.name == "steps=2"
"""

GUARD = "if __name__ == '__main__': "


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch, project: Path) -> types.ModuleType:
    """A __main__ that no file holds."""
    monkeypatch.chdir(project)
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    return main


def test_an_experiment_of_a_file_keeps_its_name_its_question_and_its_source(
    project: Path, notebook: types.ModuleType
) -> None:
    loaded = load(project / "experiments" / "theta.py")
    notebook.experiment = loaded.experiment  # as `from experiments.theta import experiment` leaves it
    found = placed(loaded.experiment)
    assert found == loaded
    assert set(found.sources) == {"experiments/theta.py", "experiments/baselines.py"}


def test_an_experiment_of_a_cell_is_called_something_and_keeps_the_modules_that_it_imports(
    project: Path, notebook: types.ModuleType
) -> None:
    notebook.mine = replace(load(project / "experiments" / "theta.py").experiment, seeds=1)
    with pytest.raises(Mistake, match="it is in no file; call it, as in"):
        placed(notebook.mine)
    with pytest.raises(Mistake, match=r"'a/b' is no name for a folder"):
        placed(notebook.mine, "a/b")
    found = placed(notebook.mine, "mine")
    assert (found.name, found.root, found.base) == ("mine", project, project)
    assert "experiments/baselines.py" in found.sources
    assert not any(place.endswith(".ipynb") for place in found.sources)


def test_a_component_of_a_cell_is_refused_with_its_place(project: Path, notebook: types.ModuleType) -> None:
    class Celled(Norm):
        """x."""

        kind: Literal["celled"] = "celled"

        def build(self, width: int, place: Place) -> nn.Module:
            return nn.Identity()

    Celled.__module__ = "__main__"
    base = load(project / "experiments" / "theta.py").experiment.baseline
    fields: dict[str, Any] = {"seeds": 1, "metric": "val/loss", "match": "none"}
    mine = Experiment(baseline=base, variants={"celled": {"model.norm": Celled()}}, **fields)
    with pytest.raises(
        Mistake, match=r"model.norm: Celled is defined in this notebook, which no worker can load; .*file"
    ):
        placed(mine, "mine")


def test_a_script_that_a_worker_loads_does_not_run_itself(
    project: Path, notebook: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "__spec__", types.SimpleNamespace(name="labkit.worker"))
    with pytest.raises(Mistake, match="put it under  if __name__"):
        driving.run_experiment(load(project / "experiments" / "theta.py").experiment)


def test_an_experiment_that_tunes_is_left_to_the_command(project: Path, notebook: types.ModuleType) -> None:
    tune = Tune(nuisance={"optimizer.lr": [0.01, 0.02]}, trials=2)
    tuned = replace(load(project / "experiments" / "theta.py").experiment, seeds=(5, 6), tune=tune)
    with pytest.raises(Mistake, match="tune is searched by the command alone: write  labkit run FILE  in a shell"):
        tuned.run("mine")


def test_a_report_before_the_first_run_is_one_message(project: Path, notebook: types.ModuleType) -> None:
    with pytest.raises(Mistake, match=r"theta: nothing is on record in .*; experiment.run\(\) comes first"):
        load(project / "experiments" / "theta.py").experiment.report()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"only": "nope"}, r"only='nope': write a list of texts, such as only=\['nope'\]"),
        ({"only": None}, r"only=None: write a list of texts, such as only=\['theta=1000'\]"),
        ({"only": ["a", 3]}, r"only=\['a', 3\]: write a list of texts, such as only=\['theta=1000'\]"),
        ({"only": [""]}, r"only=\[''\]: write a list of texts"),
        ({"sets": {"clip": 1}}, r"sets=\{'clip': 1\}: write a list of texts, such as sets=\['model.norm=layer'\]"),
        ({"seeds": 10**30}, r"seeds=1000.*: write a whole number from 1 to 1000, such as seeds=2"),
        ({"fresh": "yes"}, r"fresh='yes': write fresh=True"),
        ({"name": "mlflow.db"}, r"labkit keeps something of its own at runs/mlflow.db; call it something else"),
        ({"sets": (change for change in ["model.norm=nope"])}, r"model.norm: .*nope"),
        ({"sets": "clip=1"}, r"sets='clip=1': write a list of texts"),
        ({"runs": 5}, r"runs=5: expected a folder"),
        ({"name": 5}, r"experiment\.run: 5 is no name"),
        ({"seeds": "2"}, r"seeds='2': write a whole number from 1 to 1000, such as seeds=2"),
        ({"workers": -1}, r"workers=-1: write a whole number from 1"),
        ({"baseline": 5}, r"baseline=5: write its name as a text, such as baseline='mini'"),
        ({"data_paralel": 2}, r"experiment\.run: no argument 'data_paralel'\. Did you mean 'data_parallel'"),
        ({"set": ["clip=1"]}, r"experiment\.run: no argument 'set'\. Did you mean 'sets'"),
        ({"data_parallel": 0}, r"experiment\.run: data_parallel: .* greater than 0"),
        ({"runtime": "cpu"}, r"experiment\.run: runtime='cpu': write its fields as they are, such as device='cpu'"),
    ],
)
def test_a_word_that_is_wrong_is_one_message(
    project: Path, notebook: types.ModuleType, words: dict[str, Any], told: str
) -> None:
    with pytest.raises(Mistake, match=told):
        load(project / "experiments" / "theta.py").experiment.run(**{"name": "mine"} | words)


def test_the_words_of_execution_are_those_of_the_command_line(
    project: Path, notebook: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Asked(Exception):
        """What the driver was told."""

    def told(_loaded: object, _name: str, options: driving.Options, _console: object) -> None:
        raise Asked(options.runtime)

    monkeypatch.setattr(driving, "Runner", told)
    experiment = load(project / "experiments" / "theta.py").experiment
    words: dict[str, Any] = {"device": "cpu", "data_parallel": 2}
    for given in (words, {"runtime": Runtime(device="cpu")} | {"data_parallel": 2}, {"runtime": Runtime(**words)}):
        with pytest.raises(Asked) as caught:
            experiment.run(**given)
        assert caught.value.args == (Runtime(**words),)


def test_an_experiment_is_an_experiment() -> None:
    wrong: Any = 5
    with pytest.raises(Mistake, match=r"5 is no experiment; write Experiment\(baseline=…"):
        driving.run_experiment(wrong, "mine")


def test_an_experiment_of_a_file_keeps_its_place(project: Path, notebook: types.ModuleType) -> None:
    Synthetic(Edition(project / "runs" / "theta" / "main"), DESCRIPTION).arm("baseline")
    mine = replace(load(project / "experiments" / "theta.py").experiment, seeds=1)
    with pytest.raises(Mistake, match=r"theta/main has the runs of experiments/theta.py; call this one something else"):
        mine.run("theta", device="cpu")


def test_a_run_that_fails_is_an_exception_when_the_others_are_done(
    project: Path, notebook: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = load(project / "experiments" / "theta.py").experiment
    failing = types.SimpleNamespace(interrupted=False, failed=[types.SimpleNamespace(name="theta=1000 seed 0")])
    edition = Edition(project / "runs" / "mine" / "main")
    runner = types.SimpleNamespace(run=lambda: failing, edition=edition)
    monkeypatch.setattr(driving, "Runner", lambda *_: runner)
    monkeypatch.setattr(driving.files, "write", lambda edition: edition)
    with pytest.raises(driving.Failed, match="1 run failed, as told above: theta=1000 seed 0") as caught:
        experiment.run("mine", device="cpu")
    assert caught.value.results.comparison is edition


@pytest.mark.parametrize(
    ("guard", "told"), [("", "workers load this file, and would run it again"), (GUARD, "no such")]
)
def test_a_script_without_a_guard_is_refused_before_anything_starts(project: Path, guard: str, told: str) -> None:
    lines = [
        "from dataclasses import replace",
        "from experiments.theta import experiment",
        "mine = replace(experiment)",
    ]
    script = project / "mine.py"
    script.write_text("\n".join([*lines, guard]) + "mine.run(only=['none of them'], device='cpu')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert told in done.stderr
    assert not (project / "runs").exists()


def test_a_report_does_not_take_the_words_of_a_run(project: Path, notebook: types.ModuleType) -> None:
    with pytest.raises(Mistake, match=r"experiment\.report: no argument 'fresh'\. Choose from: baseline, runs, sets"):
        load(project / "experiments" / "theta.py").experiment.report(fresh=True)


def test_plain_python_without_a_file_trains_shows_and_reports(project: Path) -> None:
    """It stands in the folder of experiments, so that relative paths in specs mean what they mean there."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")])}
    command, here = [sys.executable, "-c", SCRIPT], project / "experiments"
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    edition = Edition(project / "runs" / "mine" / "main")
    assert edition.description()["command"] == "experiment.run('mine'), in Python"
    (run, *_) = edition.runs()
    assert set(run.record()["sources"]) == {"experiments/baselines.py", "experiments/theta.py"}
    assert json.loads((edition.path / "board.json").read_text())["title"] == "mine/verdicts"
