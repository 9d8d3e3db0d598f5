"""The runs that are there: in MLflow, and on this machine."""

import os
import sys
import webbrowser
from functools import cache
from typing import Annotated

import typer

from labkit.cli.application import FAILED, answering, app, write_json
from labkit.cli.options import AsJson, Debug, Runs


@app.command()
def diff(
    here: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or experiment:variant:seed.")],
    there: Annotated[str, typer.Argument(metavar="RUN", help="Another one.")],
    *,
    as_json: AsJson = False,
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """What two runs differ in, and the first step at which their losses part."""
    with answering(debug) as console:
        from labkit.study.finding import run_of
        from labkit.study.parting import parted, show

        say = cache(console.say)  # of both the same need be said only once
        found = parted(run_of(here, runs, say), run_of(there, runs, say))
        if as_json:
            write_json(console, found.as_json())
        else:
            show(console, (here, there), found)


@app.command()
def sync(
    target: Annotated[
        str, typer.Argument(metavar="[FILE|NAME]", help="All experiments where none is named.", show_default=False)
    ] = "",
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """Fill MLflow again from the records."""
    with answering(debug) as console:
        from labkit.report.formats import plural
        from labkit.spec import Mistake
        from labkit.study.finding import editions_of
        from labkit.tracking import mlflow

        faults, told_before = list[Mistake](), list[str]()
        for edition in editions_of(target, runs):
            try:
                count = mlflow.sync(edition, mlflow.default_uri(edition.path.parents[1]))
            except Mistake as fault:  # of one experiment; the others are in order
                faults.append(fault)
            else:
                if count:
                    console.say(f"{edition.title}: {plural(count, 'run')} brought up to date")
                else:
                    told_before.append(edition.title)
        if told_before:
            who = told_before[0] if len(told_before) == 1 else plural(len(told_before), "experiment")
            console.say(f"{who}: up to date already")
        if faults:
            raise Mistake("\n".join(map(str, faults)))


@app.command()
def ui(
    target: Annotated[
        str,
        typer.Argument(
            metavar="[FILE|NAME]", help="The experiment to open; NAME/verdicts is its table.", show_default=False
        ),
    ] = "",
    port: Annotated[int, typer.Option(min=1, max=65535, help="On 127.0.0.1.")] = 5000,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """The MLflow UI on the runs, at the experiment's view."""
    with answering(debug) as console:
        from labkit.study.finding import latest, runs_folder
        from labkit.tracking import mlflow

        def say(address: str) -> None:
            console.show(address, whole=True)
            console.say("Ctrl-C stops it")
            if not no_open and _has_screen():
                webbrowser.open(address)

        name = target.removesuffix(mlflow.VERDICTS)
        folder = runs_folder(name, runs)
        edition, verdicts = latest(name, runs, console.say), name != target
        mlflow.serve(mlflow.default_uri(folder), port, edition, say, runs=folder, verdicts=verdicts)


@app.command()
def doctor(*, runs: Runs = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """What is here, what is missing, and what to do about it."""
    with answering(debug) as console:
        from labkit.doctor import checks
        from labkit.study.finding import runs_folder
        from labkit.study.results import checks_as_json, show_checks

        found = checks(runs_folder("", runs))
        if as_json:
            write_json(console, checks_as_json(found))
        else:
            show_checks(console, found)
        if any(check.ok is False for check in found):
            raise typer.Exit(FAILED)


def _has_screen() -> bool:
    """Whether a browser would open in a window, not in this terminal."""
    return sys.platform == "darwin" or any(name in os.environ for name in ("DISPLAY", "WAYLAND_DISPLAY"))
