"""What can be checked of an experiment without running it."""

from typing import Annotated

import typer

from labkit.cli.application import FAILED, answering, app, write_json
from labkit.cli.asked import asked_for, checked, experiment_in
from labkit.cli.flags import Application
from labkit.cli.options import AsJson, Baseline, Debug, Device, File, Only, Sets

check = Application(
    help="Check what an experiment relies on; exit code 1 where it does not hold.", no_args_is_help=True
)
app.add_typer(check, name="check")


@check.command()
def mup(
    file: File,
    *,
    sets: Sets = None,
    baseline: Baseline = "",
    widths: Annotated[
        str, typer.Option(metavar="N,N,…", help="Values of d_model.", show_default="four that double")
    ] = "",
    steps: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="So many steps of training.")] = 4,
    seeds: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="Models at each width.")] = 2,
    device: Device = "auto",
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """How the baseline's activations, and what training changes of them, grow with the width: standard and mup."""
    with answering(debug) as console:
        from labkit.study import widths as study
        from labkit.study.editions import edition
        from labkit.train.coordinates import Effort
        from labkit.train.device import settings
        from labkit.train.run import Runtime

        loaded, name = edition(experiment_in(file), asked_for(baseline, sets, None, None))
        spec = loaded.experiment.baseline
        chosen = study.widths_in(widths) if widths else study.default_widths(spec.model)
        title = loaded.name if name == "main" else f"{loaded.name}@{name}"
        with settings(checked(Runtime, device=device)) as place:
            effort = Effort(steps, seeds, spec.tokenizer.size(loaded.base), place)
            with console.task("coordinate check", 2 * len(chosen) * seeds, "models") as advance:
                found = study.check(spec, chosen, effort, lambda: advance(1))
        if as_json:
            write_json(console, study.as_json(title, found, effort))
        else:
            study.show(console, title, found, effort)
        if not found[1].is_flat:
            raise typer.Exit(FAILED)


@check.command()
def kernels(
    file: File,
    *,
    sets: Sets = None,
    baseline: Baseline = "",
    only: Only = None,
    steps: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="So many steps of training.")] = 500,
    seeds: Annotated[int, typer.Option(min=2, max=100, metavar="N", help="Initial values of each variant.")] = 2,
    device: Device = "auto",
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Train every variant by labkit's kernels and by torch's operations: do the losses part less than two seeds' do."""
    with answering(debug) as console:
        from labkit.study import agreement
        from labkit.study.editions import edition
        from labkit.train.twins import Effort

        loaded, name = edition(experiment_in(file), asked_for(baseline, sets, None, None))
        title, effort = loaded.name if name == "main" else f"{loaded.name}@{name}", Effort(steps, seeds, device)
        found = agreement.check(console, loaded, agreement.chosen(loaded, only or ()), effort)
        if as_json:
            write_json(console, agreement.as_json(title, found, effort))
        else:
            agreement.show(console, title, found, effort)
        if not all(each.agree for each in found.values()):
            raise typer.Exit(FAILED)
