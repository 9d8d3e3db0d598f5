"""Experiment files: what is read from them, and how their faults are told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from labkit.spec import Mistake
from labkit.study.finding import project_root
from labkit.study.loading import load, module_of

Write = Callable[..., Path]


def test_a_file_gives_its_experiment_its_question_and_its_project(project: Path) -> None:
    loaded = load(project / "experiments" / "theta.py")
    assert [arm.name for arm in loaded.experiment.arms] == ["baseline", "theta=1000", "theta=500000"]
    assert (loaded.name, loaded.question, loaded.hypothesis) == ("theta", "Does theta matter at 32 tokens?", "No.")
    assert (loaded.root, loaded.base) == (project, project / "experiments")


def test_the_first_line_asks_where_nothing_else_does(write: Write, project: Path) -> None:
    text = (project / "experiments" / "theta.py").read_text()
    asked = load(write(text.replace("Question ", "Note ").replace("Theta in small.", "Does it matter?"), "asked.py"))
    assert asked.question == "Does it matter?"


def test_an_experiment_is_named_by_its_path_below_experiments(write: Write, project: Path) -> None:
    text = (project / "experiments" / "theta.py").read_text()
    for folder in ("aa", "bb"):
        (project / "experiments" / folder).mkdir()
    assert [load(write(text, f"{folder}/x.py")).name for folder in ("aa", "bb")] == ["aa.x", "bb.x"]
    (project / "experiments" / "mlflow").mkdir()
    with pytest.raises(Mistake, match=r"labkit keeps something of its own at runs/mlflow\.db"):
        load(write(text, "mlflow/db.py"))


def test_the_root_is_where_the_project_says_it_is(tmp_path: Path) -> None:
    file = tmp_path / "a" / "experiments" / "deep" / "x.py"
    file.parent.mkdir(parents=True)
    assert project_root(file) == tmp_path / "a"
    (tmp_path / "pyproject.toml").touch()
    assert project_root(file) == tmp_path
    (file.parent / ".git").mkdir()
    assert project_root(file) == file.parent


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\n", ["mine.py", "no 'experiment'", "experiment = Experiment("]),
        ("experiment = 3\n", ["mine.py", "'experiment' is 3"]),
        ("from labkit import vary\n\nvary(nano)\n", ["mine.py:3", "NameError", "'nano'"]),
        ("x = 1\ny = (\n", ["mine.py:2", "SyntaxError"]),
        ("import nowhere_at_all\n", ["mine.py:1", "ModuleNotFoundError", "nowhere_at_all"]),
        (
            "from labkit import ModelSpec\nModelSpec(d_model=8, n_layer=1)\n",
            ["mine.py:2", "n_layer: no such field", "Did you mean 'n_layers'"],
        ),
        (
            "from experiments.baselines import pico\nfrom labkit import *\n"
            "study = Experiment(baseline=pico, variants={}, seeds=1, metric='val/loss', match='none')\n",
            ["mine.py", "must be called 'experiment', not 'study'"],
        ),
        (
            "from experiments.baselines import pico\nfrom labkit import *\nexperiment = Experiment(\n"
            "    baseline=pico, variants=vary('model.norm', ['rsm']), seeds=1, metric='val/loss', match='none'\n)\n",
            ["mine.py:3", "variant model.norm = 'rsm'", "Did you mean 'rms'"],
        ),
    ],
)
def test_a_fault_is_told_with_its_line(write: Write, text: str, told: list[str]) -> None:
    with pytest.raises(Mistake) as caught:
        load(write(text))
    for part in told:
        assert part in str(caught.value)


def test_a_file_that_is_not_there_is_missed_by_name(project: Path) -> None:
    with pytest.raises(Mistake, match=r"thet\.py: no such experiment file. Did you mean .*theta\.py"):
        load(project / "experiments" / "thet.py")


@pytest.mark.parametrize(
    ("typed", "kind", "told"),
    [
        ("theta", "experiment", "theta: no such experiment file. Did you mean experiments/theta.py?"),
        ("theta.py", "experiment", "Did you mean experiments/theta.py?"),
        ("experiments/theta", "experiment", "Did you mean experiments/theta.py?"),
        ("sub.deep", "experiment", "Did you mean experiments/sub/deep.py?"),
        ("mine", "experiment", "Did you mean experiments/mine.py?"),
        ("mine", "sweep", "mine: no such sweep file. Did you mean sweeps/mine.py?"),
        ("xyz", "experiment", "experiment file. Choose from: experiments/mine.py, experiments/sub/deep.py, exp"),
    ],
)
def test_a_name_means_the_file_of_the_project_that_has_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, typed: str, kind: str, told: str
) -> None:
    monkeypatch.chdir(project)
    (project / "mine_too.py").write_text("from experiments.theta import experiment\n")
    for place in ("experiments/mine.py", "experiments/sub/deep.py", "sweeps/mine.py"):
        (project / place).parent.mkdir(exist_ok=True)
        (project / place).write_text(f"{'sweep' if 'sweeps' in place else 'experiment'} = 1\n")
    with pytest.raises(Mistake) as caught:
        module_of(Path(typed), kind)
    assert told in str(caught.value)
    assert "mine_too" not in str(caught.value)


def test_where_a_project_has_no_experiment_none_is_proposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("print(1)\n")
    with pytest.raises(Mistake, match=r"^script: no such experiment file\.$"):
        module_of(Path("script"))
