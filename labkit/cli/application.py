"""The application, how it ends, and how a mistake is said.

Exit codes: 0 done, 1 a run failed, 2 a mistake in what was asked, 130 interrupted.
"""

import errno
import gc
import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labkit.cli.flags import Application, Group
from labkit.cli.options import Debug
from labkit.tracking.streams import lenient

if TYPE_CHECKING:
    from labkit.tracking.console import Console

GARBAGE = 50_000
"""Objects between two searches for cycles: with Python's 700, they take a tenth of what imports and drawings do."""

NAME = 255
"""Bytes of the longest name that a file system takes."""

FAILED, USAGE, INTERRUPTED = 1, 2, 130
REMEDY = "; what was trained is kept: make room or let it be written to, and the same command goes on"
GOES_ON = "; the same command goes on from there"

app = Application(
    help="Does this change to the transformer help, by how much, and can I believe it?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line; the entry point of `labkit` and of `python -m labkit`. SIGTERM is a Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell has it of what runs in the background
            signal.signal(number, _interrupt)
    gc.set_threshold(GARBAGE)
    output = lenient()
    try:
        app()
        code = 0
    except SystemExit as left:
        code = left.code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception:
        if not _State.is_interrupted:
            raise
        code = INTERRUPTED  # which a library took for a failure of its own, as numpy does while it is imported
        sys.stderr.write("interrupted\n")
    sys.stdout.flush()
    if output.failure:
        sys.stderr.write(f"labkit: cannot write to standard output: {output.failure}\n")
        code = code or FAILED
    if code == INTERRUPTED:  # unloading torch takes seconds, for which nobody who pressed Ctrl-C waits
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    sys.exit(code)


def _interrupt(*_: Any) -> None:
    _State.is_interrupted = True
    raise KeyboardInterrupt


def _say_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"labkit {version('labkit-lm')}")
        raise typer.Exit


class Telling(Group):
    """The application, whose faults of any option, in whichever command, show the value that was typed."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message += _typed(error.__cause__)
            raise


def _typed(fault: BaseException | None) -> str:
    """What was typed, of a fault that pydantic found, whose messages leave it out."""
    errors = getattr(fault, "errors", None)
    if errors is None:
        return ""
    value = str(errors()[0]["input"])
    return f" (got {_clipped(value) if value.strip() else repr(value)})"


@app.callback(cls=Telling)
def everywhere(
    *,
    debug: Debug = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say which labkit this is.")
    ] = False,
) -> None:
    _State.debug = debug


class _State:
    debug = False
    is_interrupted = False


@contextmanager
def answering(debug: bool, *, goes_on: bool = False) -> Generator["Console"]:
    """Say a user's mistake in one message; never as a traceback, unless that is asked for.

    `goes_on` says whether what was done stays, and the same command takes it up.
    """
    code = USAGE
    try:
        from labkit.spec import Mistake
        from labkit.tracking.console import Console

        console = Console()
        try:
            yield console
        except Mistake as error:
            text = f"labkit: {error}"
        except OSError as error:
            if error.filename is None:
                raise
            if error.errno == errno.ENAMETOOLONG:
                text = f"labkit: {error.filename}: this name is too long for a file; write a shorter one"
            else:
                text, code = f"labkit: {error.filename}: {error.strerror}{REMEDY if goes_on else ''}", FAILED
        else:
            return
        if debug or _State.debug:
            traceback.print_exc()
        console.say(_clipped(text), "red")
    except KeyboardInterrupt:
        code = INTERRUPTED
        sys.stderr.write(f"interrupted{GOES_ON if goes_on else ''}\n")
    raise typer.Exit(code)


def _clipped(text: str) -> str:
    """A message without the middle of what is too long to be a name."""
    return re.sub(rf"[^\s/]{{{NAME + 1},}}", lambda word: f"{word[0][:40]}…{word[0][-20:]}", text)


def write_json(console: "Console", document: Any) -> None:
    console.document(json.dumps(document, indent=2, allow_nan=False))
