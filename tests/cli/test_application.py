"""How the command line ends."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from labkit.cli import app

PROGRAM = """
import os
import signal
from labkit.cli import application

def app():
    try:
        os.kill(os.getpid(), signal.{name})
        signal.pause()
    except KeyboardInterrupt:
        raise RecursionError("maximum recursion depth exceeded") from None

application.app = app
signal.signal(signal.SIGINT, signal.SIG_DFL)  # in the background a shell has it ignored
application.main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_that_a_library_takes_for_its_own_failure_is_one(name: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=name)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (told.returncode, told.stdout, told.stderr) == (130, "", "interrupted\n")


def test_another_failure_is_not() -> None:
    program = PROGRAM.format(name="SIGINT").replace("os.kill(os.getpid(), signal.SIGINT)", "raise KeyError('x')")
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 1
    assert "KeyError: 'x'" in told.stderr


@pytest.mark.parametrize("words", [[], ["compare"], ["bench"], ["bench", "train"], ["check", "kernels"]])
def test_help_shows_no_type_beside_a_flag(words: list[str]) -> None:
    told = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    assert (told.exit_code, "--debug" in told.stdout or words == ["bench"]) == (0, True)
    assert "bool" not in told.stdout.lower()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "--steps", "-5"], "'--steps': Input should be greater than or equal to 1 (got -5)"),
        (["run", "--steps", "2.5"], "unable to parse string as an integer (got 2.5)"),
        (["run", "--seeds", "1e9"], "unable to parse string as an integer (got 1e9)"),
        (["run", "--seeds="], "(got '')"),
        (["sweep", "--trials", "0"], "'--trials': Input should be greater than or equal to 1 (got 0)"),
        (["bench", "train", "--seconds", "soon"], "unable to parse string as a number (got soon)"),
        (["run", "--runs="], "'--runs': write the name of a folder "),
    ],
)
def test_a_bad_value_of_an_option_is_shown(words: list[str], told: str) -> None:
    ended = CliRunner().invoke(app, [*words, "FILE"], env={"COLUMNS": "200"})
    assert (ended.exit_code, told in ended.output) == (2, True)
