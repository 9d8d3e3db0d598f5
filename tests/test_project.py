"""The project's own rules: lint, format, types, import contracts, CI."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def tool(*arguments: str) -> str:
    """Run a tool of this environment; its output if it complains, else nothing."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name(arguments[0])), *arguments[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("ruff", "check", "--no-cache", "."),
        ("ruff", "format", "--no-cache", "--check", "."),
        ("basedpyright", "--pythonpath", sys.executable),
        ("lint-imports", "--no-cache"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_the_tools_find_nothing(arguments: tuple[str, ...]) -> None:
    complaint = tool(*arguments)
    assert not complaint, complaint


def test_ci_runs_the_test_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    [command] = re.findall(r"<!-- test -->\n```\w*\n(.*)\n```", readme)
    assert command.endswith("pytest -n 2")
    assert "<!-- test -->" in (ROOT / ".ci" / "run").read_text()


def test_no_module_is_longer_than_two_rooms() -> None:
    long = {
        str(path): count for path in ROOT.glob("labkit/**/*.py") if (count := len(path.read_text().splitlines())) > 400
    }
    assert not long
