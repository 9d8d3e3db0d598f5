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
