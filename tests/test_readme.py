"""Every block of README, executed: with few steps of small baselines, on a copy of the project's experiments."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"(<!-- \w+ -->\n)?```(\w+)\n(.*?)```", README, re.DOTALL)
PYTHON = [text for _, language, text in BLOCKS if language == "python"]
COMMANDS = [line for mark, language, text in BLOCKS if language == "sh" and not mark for line in text.splitlines()]
SMALLER = """
few = {"budget": {"kind": "steps", "steps": 2}, "evaluation.points": 1, "batch_size": 2, "model.d_model": 40,
       "model.n_layers": 1, "model.context": 64, "data.validation": 0.002, "precision": "fp32"}
nano = nano.patched({**few, "model.feedforward.multiple_of": 1})
mini = mini.patched({**few, "model.feedforward.multiple_of": 1, "tokenizer.vocab_size": 300, "data.corpus": "stdlib"})
"""
"""What makes the copied baselines quick; all else is as it ships."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_CACHE", str(folder / "cache"))
        patch.setenv("COLUMNS", "160")
        yield folder


def labkit(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "labkit", *words], cwd=project, capture_output=True, text=True, check=False
    )


def test_the_commands_of_the_readme_work_in_their_order(project: Path) -> None:
    for command in COMMANDS:
        name, *words = shlex.split(command)
        assert name == "labkit"
        if words == ["ui"]:
            assert "http://127.0.0.1" in said_by_the_ui(project)
            continue
        done = labkit(project, *words)
        assert done.returncode == 0, f"{command}\n{done.stderr}"


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


def test_the_baselines_of_the_readme_are_run_specs(project: Path) -> None:
    [block] = [text for text in PYTHON if "books" in text]
    code = f"{block}\nassert books.data.corpus.kind == 'text' and web.data.corpus.kind == 'hf'\n"
    environment = {**os.environ, "PYTHONPATH": f"{project}{os.pathsep}{ROOT}"}
    subprocess.run([sys.executable, "-c", code], cwd=project, env=environment, check=True)
    change = ["--set", 'data.corpus={"kind": "text", "path": "../books"}']
    done = labkit(project, "run", "experiments/rope_theta.py", "--only", "baseline", *change)
    assert done.returncode == 0, done.stderr


def test_the_component_of_the_readme_trains(project: Path) -> None:
    [block] = [text for text in PYTHON if "class Halved" in text]
    (project / "experiments" / "halved.py").write_text(block.replace("seeds=3", "seeds=1"))
    done = labkit(project, "run", "experiments/halved.py")
    assert done.returncode == 0, done.stderr
    assert "halved" in done.stdout + done.stderr


def test_the_run_command_of_the_readme_runs_a_shipped_experiment() -> None:
    [command] = re.findall(r"<!-- run -->\n```\w*\n(.*)\n```", README)
    assert re.fullmatch(r".*\.venv/bin/labkit run (\S+)", command)
    assert (ROOT / command.split()[-1]).is_file()
