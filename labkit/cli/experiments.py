"""An experiment: run it, look at it, compare; and what it may be made of."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labkit.cli.application import FAILED, answering, app, write_json
from labkit.cli.asked import asked_for, experiment_in, prepared, recorded, runtime_for
from labkit.cli.options import (
    AsJson,
    Baseline,
    Capture,
    Checkpointing,
    Compile,
    DataParallel,
    Debug,
    Device,
    DryRun,
    File,
    Fresh,
    Kernels,
    MicroBatch,
    Mode,
    Only,
    Runs,
    Seeds,
    Sets,
    SideBySide,
    Steps,
    Target,
    Workers,
)
from labkit.cli.planning import say_plan
from labkit.cli.reports import say_since

if TYPE_CHECKING:
    from labkit.tracking.console import Console
    from labkit.tracking.record import Edition


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
    data_parallel: DataParallel = 1,
    activation_checkpointing: Checkpointing = False,
    kernels: Kernels = "auto",
    capture: Capture = "auto",
    compiled: Compile = False,
    side_by_side: SideBySide = "auto",
    debug: Debug = False,
) -> None:
    """Train what is missing of an experiment, and compare."""
    with answering(debug, goes_on=True) as console:
        asked = asked_for(baseline, sets, steps, seeds)
        runtime = runtime_for(
            device=device,
            mode=mode,
            micro_batch=micro_batch,
            data_parallel=data_parallel,
            activation_checkpointing=activation_checkpointing,
            kernels=kernels,
            capture=capture,
            compile=compiled,
            side_by_side=side_by_side,
        )
        loaded, name, options = prepared(file, asked, runtime, runs=runs, only=only, workers=workers, fresh=fresh)
        if loaded.experiment.tune is not None:
            from labkit.cli.sweeps import run_sweep
            from labkit.sweep.loading import LoadedSweep

            run_sweep(console, LoadedSweep(loaded, None), name, options, dry_run=dry_run, as_json=as_json)
            return
        from labkit.study.runner import Runner

        runner = Runner(loaded, name, options, console)
        if dry_run:
            from labkit.study.forecast import forecast

            say_plan(console, forecast(runner), (), as_json)
        else:
            outcome = runner.run()
            if outcome.interrupted:
                raise KeyboardInterrupt
            conclude(console, runner.edition, as_json, again=False)
            if outcome.failed:
                raise typer.Exit(FAILED)


@app.command()
def warm(
    file: File,
    *,
    sets: Sets = None,
    baseline: Baseline = "",
    mode: Mode = "exact",
    device: Device = "auto",
    micro_batch: MicroBatch = None,
    activation_checkpointing: Checkpointing = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Compile an experiment's kernels ahead, in parallel, so that its runs start at once."""
    with answering(debug) as console:
        from labkit.study.editions import edition
        from labkit.study.matching import matched
        from labkit.study.warming import warmed

        loaded, _ = edition(experiment_in(file), asked_for(baseline, sets, None, None))
        runtime = runtime_for(
            device=device, mode=mode, micro_batch=micro_batch, activation_checkpointing=activation_checkpointing
        )
        with console.busy("compiling kernels"):
            found = warmed(matched(loaded.experiment, loaded.base, console), runtime, loaded.base)
        if as_json:
            write_json(console, found.as_json())
        else:
            console.show(str(found))


@app.command()
def show(
    target: Annotated[
        str,
        typer.Argument(metavar="FILE|RUN", help="An experiment's file, a run's folder, or experiment:variant:seed."),
    ],
    *,
    sets: Sets = None,
    baseline: Baseline = "",
    steps: Steps = None,
    as_json: AsJson = False,
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """The resolved spec, what each variant changes, and what the model costs."""
    with answering(debug) as console:
        from labkit.study import views
        from labkit.study.finding import run_of
        from labkit.study.recorded import recorded_costs

        if not target.endswith(".py") and (Path(target).is_dir() or target.count(":") >= 2):
            folder = run_of(target, runs, console.say).path
            spec = recorded(folder)
            counts = recorded_costs(folder, spec)
            if as_json:
                write_json(console, {"version": views.VERSION, **views.spec_as_json(spec, counts)})
            else:
                views.show_spec(console, target, spec, counts)
            return
        from labkit.study.editions import edition
        from labkit.study.matching import matched

        loaded, name = edition(experiment_in(Path(target)), asked_for(baseline, sets, steps, None))
        arms = matched(loaded.experiment, loaded.base, console)
        title = loaded.name if name == "main" else f"{loaded.name}@{name}"
        if as_json:
            write_json(console, views.arms_as_json(title, arms))
        else:
            views.show_arms(console, title, arms)


@app.command()
def components(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|NAME",
            help="A file, also for what it defines; a family, a kind or a path, to have its fields told one by one.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """What there is: every component's formula, paper and fields, and where it stands."""
    with answering(debug) as console:
        from labkit.study.catalog import catalog_as_json, show_catalog
        from labkit.study.loading import module_of

        files = [name for name in names or [] if name.endswith(".py") or "/" in name]
        for file in files:
            module_of(Path(file))
        words = [name for name in names or [] if name not in files]
        if as_json:
            write_json(console, catalog_as_json(words))
        else:
            show_catalog(console, words)


@app.command()
def report(target: Target, *, as_json: AsJson = False, runs: Runs = None, debug: Debug = False) -> None:
    """The comparison as far as the records go, and its page."""
    with answering(debug) as console:
        from labkit.spec import Mistake
        from labkit.study.finding import edition_of

        edition = edition_of(target, runs, console.say)
        if (told := edition.description()).get("kind") == "sweep":
            raise Mistake(f"{edition.title} is a sweep; write  {told['command']}")
        conclude(console, edition, as_json, again=True)
        say_since(console, target, edition)


def conclude(console: "Console", edition: "Edition", as_json: bool, again: bool) -> None:
    """Compare, write the report anew or where it is not there yet, and show the result."""
    from labkit.report.comparison import compare

    page = edition.path / "report.html"
    if again or not page.exists():
        from labkit.report.files import write

        comparison = write(edition)
    else:
        comparison = compare(edition)
    if as_json:
        write_json(console, {**comparison.as_json(), "report": str(page)})
    else:
        from labkit.study.results import show_comparison

        show_comparison(console, comparison, page)
