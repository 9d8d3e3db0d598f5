"""The command line. Each command imports what it needs when it runs, so that `labkit --help` answers at once.

Exit codes: 0 done, 1 a run failed, 2 a mistake in what was asked, 130 interrupted.
"""

import json
import os
import sys
import traceback
import webbrowser
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from labkit.study.editions import Asked
    from labkit.study.loading import Loaded
    from labkit.tracking.console import Console
    from labkit.tracking.record import Edition
    from labkit.train.run import Runtime

FAILED, USAGE, INTERRUPTED = 1, 2, 130

app = typer.Typer(
    help="Does this change to the transformer help, by how much, and can I believe it?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="An experiment's file, such as experiments/rope_theta.py.")]
Target = Annotated[str, typer.Argument(metavar="FILE|NAME", help="An experiment; rope_theta@small is an edition.")]
AnyTarget = Annotated[str, typer.Argument(metavar="[FILE|NAME]", help="An experiment; else all.", show_default=False)]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change the baseline: model.norm=layer."),
]
Baseline = Annotated[
    str, typer.Option(metavar="NAME", help="Another baseline: of experiments/baselines.py, or module:name.")
]
Only = Annotated[list[str] | None, typer.Option(metavar="ARM", help="Only this arm, or these.")]
Steps = Annotated[int | None, typer.Option(min=1, metavar="N", help="A budget of so many steps.", show_default=False)]
Seeds = Annotated[int | None, typer.Option(min=1, metavar="N", help="The first so many seeds.", show_default=False)]
Fresh = Annotated[bool, typer.Option("--fresh", help="Run again what was finished with other sources.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would run; train and write nothing.")]
Runs = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Where the runs lie.", show_default="the project's runs")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, or cuda:1.")]
Mode = Annotated[str, typer.Option(help="exact: the same bits every time; fast: the last ones may differ.")]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="So many runs at once.", show_default="one a device")
]
MicroBatch = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Sequences at once in the model.", show_default="the whole batch")
]
Checkpointing = Annotated[bool, typer.Option("--activation-checkpointing", help="Less memory, the same numbers.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of a mistake.")]


def main() -> None:
    """Run the command line; the entry point of `labkit` and of `python -m labkit`."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


@app.callback()
def options(*, debug: Debug = False) -> None:
    _State.debug = debug


@app.command()
def run(
    file: File,
    *,
    sets: Sets = None,
    baseline: Baseline = "",
    only: Only = None,
    seeds: Seeds = None,
    steps: Steps = None,
    fresh: Fresh = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    runs: Runs = None,
    device: Device = "auto",
    mode: Mode = "exact",
    workers: Workers = None,
    micro_batch: MicroBatch = None,
    activation_checkpointing: Checkpointing = False,
    debug: Debug = False,
) -> None:
    """Train what is missing of an experiment, and compare."""
    with _answering(debug) as console:
        from labkit.study.editions import edition
        from labkit.study.runner import Options, Runner
        from labkit.study.views import plan_as_json, show_plan

        asked = _asked(baseline, sets, steps, seeds)
        loaded, name = edition(_loaded(file), asked)
        runtime = _runtime(device, mode, micro_batch, activation_checkpointing)
        folder = runs or loaded.root / "runs"
        runner = Runner(
            loaded, name, Options(folder, runtime, _command(file, asked), only or (), workers or 0, fresh), console
        )
        if dry_run and as_json:
            _print(console, plan_as_json(runner))
        elif dry_run:
            show_plan(console, runner)
        else:
            outcome = runner.run()
            if outcome.interrupted:
                console.say("interrupted; the same command goes on from there", "yellow")
                raise typer.Exit(INTERRUPTED)
            _conclude(console, runner.edition, as_json, again=False)
            if outcome.failed:
                raise typer.Exit(FAILED)


@app.command()
def show(
    target: Annotated[Path, typer.Argument(metavar="FILE|RUN", help="An experiment's file, or a run's folder.")],
    *,
    sets: Sets = None,
    baseline: Baseline = "",
    steps: Steps = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """The resolved spec, what each variant changes, and what the model costs."""
    with _answering(debug) as console:
        from labkit.study import views

        if target.is_dir():
            spec, counts = _recorded(target)
            if as_json:
                _print(console, {"version": views.VERSION, **views.spec_as_json(spec, counts)})
            else:
                views.show_spec(console, str(target), spec, counts)
            return
        from labkit.study.editions import edition
        from labkit.study.matching import counted

        loaded, name = edition(_loaded(target), _asked(baseline, sets, steps, None))
        arms = [counted(arm, loaded.base) for arm in loaded.experiment.arms]
        title = loaded.name if name == "main" else f"{loaded.name}@{name}"
        if as_json:
            _print(console, views.arms_as_json(title, arms))
        else:
            views.show_arms(console, title, arms)


@app.command()
def components(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Also what this file defines.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Every component there is: its formula, its paper, its fields."""
    with _answering(debug) as console:
        from labkit.study.loading import module_of
        from labkit.study.views import components_as_json, show_components

        if file is not None:
            module_of(file)
        if as_json:
            _print(console, components_as_json())
        else:
            show_components(console)


@app.command()
def report(target: Target, *, as_json: AsJson = False, runs: Runs = None, debug: Debug = False) -> None:
    """The comparison as far as the records go, and its page."""
    with _answering(debug) as console:
        from labkit.study.finding import edition_of

        _conclude(console, edition_of(target, runs), as_json, again=True)


@app.command("import")
def import_model(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A model that transformers saved.")],
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write it.", show_default="imported/<DIR's name>")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """A model of Hugging Face as a model spec and weights."""
    with _answering(debug) as console:
        from labkit.interop import import_folder
        from labkit.spec import lean

        target = to or Path("imported") / folder.resolve().name
        spec = import_folder(folder, target)
        if as_json:
            _print(console, {"version": 1, "folder": str(target), "model": spec.as_json()})
        else:
            console.document(f"model = ModelSpec.from_json({lean(spec)!r})")
            console.say(f"written to {target}; labkit.interop.load({str(target)!r}) gives the spec and the model")


@app.command("export")
def export_model(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run's folder.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write it.")],
    debug: Debug = False,
) -> None:
    """A finished run as a folder that transformers loads with no custom code."""
    with _answering(debug) as console:
        from labkit.interop import export_run
        from labkit.tracking.record import Run

        spec, _ = _recorded(run)
        exported = export_run(Run(run.absolute()), spec, folder)
        for note in exported.notes:
            console.say(note, "yellow")
        console.say(f"{folder}: {exported.architecture}; AutoModelForCausalLM.from_pretrained loads it")


@app.command()
def sync(
    target: Annotated[
        str, typer.Argument(metavar="[FILE|NAME]", help="All experiments where none is named.", show_default=False)
    ] = "",
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """Fill MLflow again from the records."""
    with _answering(debug) as console:
        from labkit.study.finding import editions_of
        from labkit.tracking import mlflow

        for edition in editions_of(target, runs):
            count = mlflow.sync(edition, mlflow.default_uri(edition.path.parents[1]))
            console.say(f"{edition.title}: {count} runs brought up to date")


@app.command()
def ui(
    target: Annotated[
        str, typer.Argument(metavar="[FILE|NAME]", help="The experiment to open.", show_default=False)
    ] = "",
    port: Annotated[int, typer.Option(min=1, max=65535, help="On 127.0.0.1.")] = 5000,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """The MLflow UI on the runs, at the experiment's view."""
    with _answering(debug) as console:
        from labkit.study.finding import latest, runs_folder
        from labkit.tracking import mlflow

        def say(address: str) -> None:
            console.show(address)
            if not no_open and _has_screen():
                webbrowser.open(address)

        uri = mlflow.default_uri(runs_folder(target, runs))
        mlflow.serve(uri, port, latest(target, runs), say)


@app.command()
def doctor(*, runs: Runs = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """What is here, what is missing, and what to do about it."""
    with _answering(debug) as console:
        from labkit.doctor import checks
        from labkit.study.finding import runs_folder
        from labkit.study.results import checks_as_json, show_checks

        found = checks(runs_folder("", runs))
        if as_json:
            _print(console, checks_as_json(found))
        else:
            show_checks(console, found)
        if any(check.ok is False for check in found):
            raise typer.Exit(FAILED)


class _State:
    debug = False


@contextmanager
def _answering(debug: bool) -> Generator["Console"]:
    """Say a user's mistake in one message; never as a traceback, unless that is asked for."""
    from labkit.spec import Mistake
    from labkit.tracking.console import Console

    console = Console()
    try:
        yield console
    except Mistake as error:
        if debug or _State.debug:
            traceback.print_exc()
        console.say(f"labkit: {error}", "red")
        raise typer.Exit(USAGE) from None
    except KeyboardInterrupt:
        console.say("interrupted", "yellow")
        raise typer.Exit(INTERRUPTED) from None


def _has_screen() -> bool:
    """Whether a browser would open in a window, not in this terminal."""
    return sys.platform == "darwin" or any(name in os.environ for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _loaded(file: Path) -> "Loaded":
    from labkit.study.loading import load

    return load(file)


def _asked(baseline: str, sets: list[str] | None, steps: int | None, seeds: int | None) -> "Asked":
    from labkit.study.editions import Asked

    return Asked(baseline, sets or (), steps or 0, seeds or 0)


def _runtime(device: str, mode: str, micro_batch: int | None, activation_checkpointing: bool) -> "Runtime":
    from labkit.spec import Mistake, ValidationError, explain
    from labkit.train.run import Runtime

    fields = {"device": device, "mode": mode, "micro_batch": micro_batch}
    try:
        return Runtime.from_json({**fields, "activation_checkpointing": activation_checkpointing})
    except ValidationError as error:
        raise Mistake(f"--{explain(error, Runtime)}") from error


def _command(file: Path, asked: "Asked") -> str:
    """What was typed, as far as it decides what is computed."""
    import shlex

    words = ["labkit", "run", str(file), *(["--baseline", asked.baseline] if asked.baseline else [])]
    words += [word for text in asked.sets for word in ("--set", text)]
    words += ["--steps", str(asked.steps)] if asked.steps else []
    return shlex.join(words)


def _conclude(console: "Console", edition: "Edition", as_json: bool, again: bool) -> None:
    """Compare, write the page anew or where it is not there yet, and show the result."""
    from labkit.report.comparison import compare

    page = edition.path / "report.html"
    if again or not page.exists():
        from labkit.report.page import write

        write(edition)
    comparison = compare(edition)
    if as_json:
        _print(console, {**comparison.as_json(), "report": str(page)})
    else:
        from labkit.study.results import show_comparison

        show_comparison(console, comparison, page)


def _recorded(folder: Path) -> tuple[Any, Any]:
    from labkit.study.loading import recorded_spec

    return recorded_spec(folder)


def _print(console: "Console", document: Any) -> None:
    console.document(json.dumps(document, indent=2, allow_nan=False))
