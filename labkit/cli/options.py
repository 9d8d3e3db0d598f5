"""The words of the commands that more than one of them takes, or that are long to say."""

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(metavar="FILE", help="An experiment's file, such as experiments/rope_theta.py.")]
Target = Annotated[str, typer.Argument(metavar="FILE|NAME", help="An experiment; rope_theta@small is an edition.")]
RunTarget = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or experiment:variant:seed.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change the baseline: model.norm=layer."),
]
Baseline = Annotated[
    str, typer.Option(metavar="NAME", help="Another baseline: of experiments/baselines.py, or module:name.")
]
Only = Annotated[
    list[str] | None, typer.Option(metavar="VARIANT", help="This variant and the baseline; repeat it for more.")
]
Steps = Annotated[int | None, typer.Option(min=1, metavar="N", help="A budget of so many steps.", show_default=False)]
Seeds = Annotated[
    int | None, typer.Option(min=1, max=1000, metavar="N", help="The first so many seeds.", show_default=False)
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Run again what was finished with other sources, or for another experiment.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would run; train and write nothing.")]


def folder_named(name: str) -> Path:
    if not name.strip():
        raise typer.BadParameter("write the name of a folder")
    return Path(name)


Runs = Annotated[
    Path | None,
    typer.Option(metavar="DIR", parser=folder_named, help="Where the runs lie.", show_default="the project's runs"),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, or cuda:1.")]
Mode = Annotated[str, typer.Option(help="exact: the same bits every time; fast: the last ones may differ.")]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="So many runs at once.", show_default="one a device")
]
MicroBatch = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Sequences at once in the model.", show_default="the whole batch")
]
DataParallel = Annotated[
    int, typer.Option("--data-parallel", min=1, metavar="N", help="So many GPUs share the batch of every run.")
]
Checkpointing = Annotated[bool, typer.Option("--activation-checkpointing", help="Less memory, the same numbers.")]
Kernels = Annotated[str, typer.Option(help="auto: labkit's own on a GPU; torch: torch's operations, for comparison.")]
Capture = Annotated[str, typer.Option(help="auto: steps are captured once and replayed on a GPU; off: they are not.")]
Compile = Annotated[bool, typer.Option("--compile", help="torch.compile instead, for comparison.")]
SideBySide = Annotated[
    str, typer.Option(metavar="auto|N", help="So many runs at once on a GPU; auto: as many as it is faster with.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Prompts = Annotated[
    list[str] | None,
    typer.Option("--prompt", metavar="TEXT", help="May be given again.", show_default="a document's beginning"),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of a mistake.")]
