"""What an experiment will take and what it can show, before it is run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from labkit.cli.application import answering, app, write_json
from labkit.cli.asked import asked_for, prepared, runtime_for
from labkit.cli.options import (
    AsJson,
    Baseline,
    Capture,
    Checkpointing,
    Compile,
    DataParallel,
    Debug,
    Device,
    File,
    Kernels,
    MicroBatch,
    Mode,
    Only,
    Runs,
    Seeds,
    Sets,
    Steps,
    Workers,
)

if TYPE_CHECKING:
    from labkit.study.budget import Proposal
    from labkit.study.forecast import Forecast
    from labkit.tracking.console import Console


@app.command()
def plan(
    file: File,
    *,
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="Propose seeds and steps that fit: 2h, 90m.", show_default=False)
    ] = "",
    measure: Annotated[bool, typer.Option("--measure", help="Time a few steps even of what is known.")] = False,
    sets: Sets = None,
    baseline: Baseline = "",
    only: Only = None,
    seeds: Seeds = None,
    steps: Steps = None,
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
    debug: Debug = False,
) -> None:
    """What an experiment will take, and what difference it can show; a dry run that times a few steps."""
    with answering(debug) as console:
        from labkit.study.budget import proposals, seconds_in
        from labkit.study.forecast import forecast
        from labkit.study.runner import Runner

        span = seconds_in(budget) if budget else 0.0
        runtime = runtime_for(
            device=device,
            mode=mode,
            micro_batch=micro_batch,
            data_parallel=data_parallel,
            activation_checkpointing=activation_checkpointing,
            kernels=kernels,
            capture=capture,
            compile=compiled,
        )
        asked = asked_for(baseline, sets, steps, seeds)
        loaded, name, options = prepared(file, asked, runtime, runs=runs, only=only, workers=workers)
        found = forecast(Runner(loaded, name, options, console), measure=True, again=measure)
        say_plan(console, found, proposals(found, span) if budget else (), as_json)


def say_plan(console: "Console", found: "Forecast", ways: "Sequence[Proposal]", as_json: bool) -> None:
    """Show a plan, and what a budget buys where one is given."""
    from labkit.study.planned import plan_as_json, show_plan

    if as_json:
        write_json(console, plan_as_json(found, ways))
    else:
        show_plan(console, found, ways)
