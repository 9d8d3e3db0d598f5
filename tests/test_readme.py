"""Every block of README, executed: with few steps of small baselines, on a copy of the project's experiments."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from labkit.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"(<!-- \w+ -->\n)?```(\w+)\n(.*?)```", README, re.DOTALL)
PYTHON = [text for _, language, text in BLOCKS if language == "python"]
COMMANDS = [line for mark, language, text in BLOCKS if language == "sh" and not mark for line in text.splitlines()]
SMALLER = """
few = {"budget": {"kind": "steps", "steps": 2}, "evaluation.points": 1, "batch_size": 2, "model.d_model": 40,
       "model.n_layers": 1, "model.context": 64, "data.validation": 0.002, "precision": "fp32"}
nano = nano.patched({**few, "model.feedforward.multiple_of": 1})
mini = mini.patched({**few, "model.feedforward.multiple_of": 1, "tokenizer.vocab_size": 300,
                     "data.corpus": {"kind": "text", "path": "../books"}})
"""
"""What makes the copied baselines quick; all else is as it ships."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "experiments", folder / "experiments")
    with (folder / "experiments" / "baselines.py").open("a") as baselines:
        baselines.write(SMALLER)
    shutil.copytree(ROOT / "sweeps", folder / "sweeps")
    quick = folder / "sweeps" / "quick.py"
    few = quick.read_text().replace("trials=16", "trials=2").replace('"budget.steps": 150', '"budget.steps": 2')
    quick.write_text(few.replace('"evaluation.points": 6', '"evaluation.points": 1'))
    theta, feedforward = (folder / "experiments" / f"{name}.py" for name in ("rope_theta", "feedforward"))
    theta.write_text(theta.read_text().replace("seeds=3", "seeds=1").replace("[1e3, 1e5, 5e5]", "[1e3]"))
    one = feedforward.read_text().replace("seeds=4", "seeds=1").replace("placebo=True", "placebo=False")
    feedforward.write_text(re.sub(r' +"(geglu|relu2)": .*\n', "", one))
    (folder / "books").mkdir()
    (folder / "books" / "one.txt").write_text("It was the best of times.\n" * 20_000)
    (folder / "books" / "two.txt").write_text(README)
    return folder


@pytest.fixture
def readme(folder: Path, own_imports: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, in which the test stands."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})  # one worker: each takes seconds to begin
    return folder


def labkit(*words: str) -> Result:
    """The command in this process, which spares every command what importing torch takes."""
    return CliRunner().invoke(app, words)


def test_the_commands_of_the_readme_work_in_their_order(readme: Path) -> None:
    for command in COMMANDS:
        name, *words = shlex.split(command)
        assert name == "labkit"
        if words == ["ui"]:
            assert "http://127.0.0.1" in said_by_the_ui(readme)
            continue
        done = labkit(*words)
        assert done.exit_code == 0, f"{command}\n{done.stderr}"


def test_the_experiment_of_the_readme_is_the_one_that_ships() -> None:
    [block] = [text for text in PYTHON if "Feed-forward units" in text]
    shipped = (ROOT / "experiments" / "feedforward.py").read_text()
    assert block == re.sub(r"\nOutcome .*?(?=\n\"\"\")", "", shipped, flags=re.DOTALL)


def test_the_sweep_of_the_readme_is_the_one_that_ships() -> None:
    [block] = [text for text in PYTHON if "Sweep(" in text]
    assert (ROOT / "sweeps" / "quick.py").read_text().endswith(block)


def said_by_the_ui(project: Path) -> str:
    """What it says, up to its address, after which it is stopped."""
    command = [sys.executable, "-m", "labkit", "ui", "--no-open"]
    server = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    said = ""
    for line in server.stdout:
        said += line
        if "http://127.0.0.1" in line:
            break
    server.send_signal(signal.SIGINT)
    rest, _ = server.communicate(timeout=30)
    return said + rest


@pytest.mark.usefixtures("no_drawings")
def test_the_baselines_of_the_readme_are_run_specs(readme: Path) -> None:
    [block] = [text for text in PYTHON if "books" in text]
    defined: dict[str, Any] = {}
    exec(block, defined)
    assert defined["books"].data.corpus.kind == "text"
    assert defined["web"].data.corpus.kind == "hf"
    change = ["--set", 'data.corpus={"kind": "text", "path": "../books"}']
    done = labkit("run", "experiments/rope_theta.py", "--only", "baseline", *change)
    assert done.exit_code == 0, done.stderr


@pytest.mark.usefixtures("no_drawings")
def test_the_component_of_the_readme_trains(readme: Path) -> None:
    [block] = [text for text in PYTHON if "class Halved" in text]
    (readme / "experiments" / "halved.py").write_text(block.replace("seeds=3", "seeds=1"))
    done = labkit("run", "experiments/halved.py")
    assert done.exit_code == 0, done.stderr
    assert "halved" in done.output


def test_the_run_command_of_the_readme_runs_a_shipped_experiment() -> None:
    [command] = re.findall(r"<!-- run -->\n```\w*\n(.*)\n```", README)
    assert re.fullmatch(r".*\.venv/bin/labkit run (\S+)", command)
    assert (ROOT / command.split()[-1]).is_file()
