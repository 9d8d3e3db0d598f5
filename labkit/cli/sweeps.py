"""A sweep: search it, or compare arms each at its own best."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labkit.cli.application import FAILED, answering, app, write_json
from labkit.cli.asked import as_typed, asked_for, runtime_for
from labkit.cli.experiments import conclude
from labkit.cli.options import (
    AsJson,
    Baseline,
    Capture,
    Compile,
    DataParallel,
    Debug,
    Device,
    DryRun,
    Kernels,
    MicroBatch,
    Mode,
    Runs,
    Seeds,
    Sets,
    SideBySide,
    Steps,
)

if TYPE_CHECKING:
    from labkit.study.loading import Loaded
    from labkit.study.runner import Options
    from labkit.sweep.loading import LoadedSweep
    from labkit.sweep.runner import Searched
    from labkit.tracking.console import Console


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A sweep's file, such as sweeps/quick.py.")],
    *,
    workers: Annotated[
        int | None,
        typer.Option(
            "-j", "--workers", min=1, metavar="N", help="So many trials at once.", show_default="one a device"
        ),
    ] = None,
    storage: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="LABKIT_OPTUNA_STORAGE",
            help="Where the study is kept: a journal file, or any database of Optuna's.",
            show_default="beside the runs",
        ),
    ] = "",
    best: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the best trial as an experiment file.", show_default=False),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Another number of trials.", show_default=False)
    ] = None,
    sets: Sets = None,
    baseline: Baseline = "",
    seeds: Seeds = None,
    steps: Steps = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    runs: Runs = None,
    device: Device = "auto",
    mode: Mode = "exact",
    micro_batch: MicroBatch = None,
    data_parallel: DataParallel = 1,
    side_by_side: SideBySide = "auto",
    kernels: Kernels = "auto",
    capture: Capture = "auto",
    compiled: Compile = False,
    debug: Debug = False,
) -> None:
    """Search a space of run specs, or compare arms each at its own best; the same command goes on, also elsewhere."""
    with answering(debug, goes_on=True) as console:
        from labkit.study.runner import Options
        from labkit.sweep.loading import load_sweep, on_edition

        asked = asked_for(baseline, sets, steps, seeds)
        found, name = on_edition(load_sweep(file), asked, trials or 0)
        runtime = runtime_for(
            device=device,
            mode=mode,
            micro_batch=micro_batch,
            data_parallel=data_parallel,
            side_by_side=side_by_side,
            kernels=kernels,
            capture=capture,
            compile=compiled,
        )
        folder = runs or found.loaded.root / "runs"
        command = as_typed(file, asked, "sweep", trials or 0)
        options = Options(folder, runtime, command, workers=workers or 0)
        run_sweep(console, found, name, options, storage=storage, dry_run=dry_run, as_json=as_json, best=best)


def run_sweep(
    console: "Console",
    found: "LoadedSweep",
    edition: str,
    options: "Options",
    *,
    storage: str = "",
    dry_run: bool = False,
    as_json: bool = False,
    best: Path | None = None,
) -> None:
    """Do what a sweep, or an experiment that tunes, asks for, and show it."""
    from labkit.sweep.best import check_best, write_best
    from labkit.sweep.files import PAGE
    from labkit.sweep.results import plan_as_json, search_as_json, show_plan, show_search
    from labkit.sweep.runner import SweepRunner

    if best is not None:
        check_best(found, best)
    runner = SweepRunner(found, edition, options, console, storage)
    if dry_run:
        runner.look()
    if dry_run and as_json:
        write_json(console, plan_as_json(runner))
        return
    if dry_run:
        show_plan(console, runner)
        return
    outcome, searched = runner.run()
    if outcome.interrupted:
        raise KeyboardInterrupt
    page = searched.edition.path / PAGE
    if not runner.compares and as_json:
        write_json(console, search_as_json(searched, page))
    elif not runner.compares:
        show_search(console, searched, page)
    if best is not None:
        console.say(write_best(found, searched, best))
    if runner.compares and not outcome.failed:
        decide(console, found, searched, edition, options, as_json=as_json)
    if outcome.failed:
        for told in outcome.failed:
            console.say(told, "red")
        raise typer.Exit(FAILED)


def decide(
    console: "Console", found: "LoadedSweep", searched: "Searched", edition: str, options: "Options", *, as_json: bool
) -> None:
    """Compare the arms at their best, where more than one came to its end."""
    from labkit.sweep.files import PAGE
    from labkit.sweep.results import search_as_json, show_tuned
    from labkit.sweep.winners import undecided, verdict_of

    if not as_json:
        show_tuned(console, searched)
    if not (why := undecided(searched.winners)):
        settle(console, verdict_of(found.loaded, searched.winners), edition, options, as_json)
        return
    page = searched.edition.path / PAGE
    console.say(f"no verdict: {why}; every trial is told in {page}", "yellow")
    if as_json:
        write_json(console, search_as_json(searched, page))


def settle(console: "Console", loaded: "Loaded", edition: str, options: "Options", as_json: bool) -> None:
    """Run the winners on fresh seeds, and compare."""
    from labkit.study.runner import Runner

    runner = Runner(loaded, edition, options, console)
    outcome = runner.run()
    if outcome.interrupted:
        raise KeyboardInterrupt
    conclude(console, runner.edition, as_json, again=False)
    if outcome.failed:
        raise typer.Exit(FAILED)
