"""What came of experiments: as a table to paste, and side by side."""

from typing import TYPE_CHECKING, Annotated

import typer

from labkit.cli.application import answering, app, write_json
from labkit.cli.options import AsJson, Debug, Runs, Target

if TYPE_CHECKING:
    from labkit.tracking.console import Console
    from labkit.tracking.record import Edition


@app.command()
def table(
    target: Target,
    *,
    tex: Annotated[bool, typer.Option("--tex", help="LaTeX, with n, method and hash.")] = False,
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """The table of an experiment, to paste into a text: Markdown, or LaTeX."""
    with answering(debug) as console:
        from labkit.report.comparison import compare as compared
        from labkit.report.latex import latex
        from labkit.study.finding import edition_of

        edition = edition_of(target, runs, console.say)
        found = compared(edition)
        console.document((latex(found) if tex else found.markdown()).rstrip("\n"))
        say_since(console, target, edition)


@app.command()
def compare(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="FILE|NAME...", help="Two or more; rope_theta@small is an edition."),
    ],
    *,
    as_json: AsJson = False,
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """Arms of several experiments side by side: the same metric on the same data, against the first one's baseline."""
    with answering(debug) as console:
        from labkit.report import interaction
        from labkit.report.across import ALSO, across, told
        from labkit.report.comparison import compare as compared
        from labkit.spec import Mistake
        from labkit.study.finding import edition_of

        asked = {edition_of(target, runs, console.say): target for target in targets}
        editions = list(asked)
        if len(editions) < 2:
            raise Mistake(f"{' '.join(targets)}: name two or more experiments to compare")
        found = across([compared(edition) for edition in editions], brief=not as_json)
        for edition, target in asked.items():
            say_since(console, target, edition)
        if as_json:
            write_json(console, found.as_json())
            return
        headers, rows, _ = found.rows()
        spare = ("tok/s", "tokens", "params")
        console.table(found.heading, headers, rows, spare=spare, note=found.header, words=(ALSO,))
        for name, text in told(found):
            console.show(f"{name:<9} {text}")
        if found.interactions:
            headers, rows, _ = interaction.rows(found.interactions, found.metric)
            console.show("")
            console.table(interaction.TITLE, headers, rows, words=("on", "then on"), note=interaction.NOTE)


def say_since(console: "Console", target: str, edition: "Edition") -> None:
    """Say where the experiment's file has other variants by now; only where it was changed it is read, with torch."""
    from labkit.study.finding import changed_file

    if file := changed_file(target, edition):
        from labkit.study.since import since

        if told := since(edition, file, console):
            console.say(told, "yellow")
