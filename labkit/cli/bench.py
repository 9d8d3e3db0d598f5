"""How fast labkit is on the GPU at hand, beside what else there is."""

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labkit.cli.application import answering, app, write_json
from labkit.cli.flags import Application
from labkit.cli.options import AsJson, Debug

if TYPE_CHECKING:
    from labkit.tracking.console import Console

bench = Application(help="Measure labkit's speed on this GPU, beside its peers.", no_args_is_help=True)
app.add_typer(bench, name="bench")

VERSION = 2
LIBRARIES = ("torch", "triton", "transformers", "liger-kernel")

Save = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write the rows to FILE as JSON, after each of them.", show_default=False),
]


@bench.command()
def kernels(
    *,
    only: Annotated[str, typer.Option(metavar="OP,OP,…", help="Only these operations.", show_default="all")] = "",
    peers: Annotated[str, typer.Option(metavar="NAME,…", help="Of torch, compile, liger.")] = "torch,compile,liger",
    save: Save = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Each operation by width: GPU time, the time of a call, the share of the rate of a copy of as many bytes."""
    with answering(debug) as console:
        from labkit.bench import kernels as operations

        wanted = _chosen("--only", only, operations.NAMES)
        against = _chosen("--peers", peers, ("torch", "compile", "liger"))
        _on_a_gpu()
        rows = operations.bench(wanted, against, console.say)
        _show(console, rows, operations.line, operations.HEADER, as_json=as_json, save=save)


@bench.command()
def attention(
    *,
    peers: Annotated[str, typer.Option(metavar="NAME,…", help="Of cudnn, flash, flex.")] = "cudnn,flash,flex",
    options: Annotated[
        bool, typer.Option("--options", help="Also what windows, caps, sinks and the like cost.")
    ] = False,
    save: Save = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Causal attention at four shapes: forward, and with backward, and how often the result differs from the first."""
    with answering(debug) as console:
        from labkit.bench import attention as shapes

        against = tuple(_chosen("--peers", peers, shapes.PEERS))
        _on_a_gpu()
        rows = shapes.compared(names=against, options=options, told=console.say)
        _show(console, rows, shapes.line, shapes.HEADER, as_json=as_json, save=save)


@bench.command()
def train(
    *,
    only: Annotated[
        str, typer.Option(metavar="NAME,…", help="Of launch-bound, 13M, 124M, 1B.", show_default="all")
    ] = "",
    contenders: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="NAME,…",
            help="Of labkit, labkit-eager, torch, torch-eager, compile, compile-captured, liger.",
        ),
    ] = "labkit,compile,compile-captured,liger,torch-eager,torch",
    mode: Annotated[str, typer.Option(metavar="MODE,…", help="Of exact, fast: labkit's own.")] = "exact,fast",
    seconds: Annotated[float, typer.Option(min=0.01, metavar="S", help="Of each turn; all take turns.")] = 0.15,
    save: Save = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Whole training steps of four models, interleaved: speed, the floor beside it, the first step, memory."""
    with answering(debug) as console:
        from labkit.bench import train as whole

        setups = _chosen("--only", only, list(whole.SETUPS))
        names, modes = _chosen("--with", contenders, whole.CONTENDERS), _chosen("--mode", mode, ("exact", "fast"))
        _on_a_gpu()
        rows = whole.Bench(names, modes, seconds, console.say).rows(setups)
        _show(console, rows, whole.line, whole.HEADER, as_json=as_json, save=save)


@bench.command()
def traps(
    *,
    only: Annotated[str, typer.Option(metavar="TRAP,…", help="Only these traps.", show_default="all")] = "",
    providers: Annotated[
        str, typer.Option("--with", metavar="NAME,…", help="Of labkit, torch, liger.")
    ] = "labkit,torch,liger",
    save: Save = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """What has bitten kernel libraries: whose operations pass, and what is wrong with those that do not."""
    with answering(debug) as console:
        from labkit.bench import traps as table

        wanted = _chosen("--only", only, list(table.TRAPS))
        names = _chosen("--with", providers, table.PROVIDERS)
        _on_a_gpu()
        rows = table.tried(wanted, names, console.say)
        _show(console, rows, table.line, table.HEADER, as_json=as_json, save=save)


@bench.command()
def page(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="What --save wrote, of train, attention or kernels.",
            show_default="labkit's own",
        ),
    ] = None,
    *,
    debug: Debug = False,
) -> None:
    """The figures of a benchmark as a table in Markdown."""
    with answering(debug) as console:
        from labkit.bench import shown

        console.show("\n\n".join(map(_page, [file] if file else shown.FIGURES)), whole=True)


def _page(file: Path) -> str:
    """On what, when and with what it was measured, and the table. Raises Mistake for a file of something else."""
    from labkit.bench import shown
    from labkit.spec import Mistake
    from labkit.tracking import atomic

    found = atomic.read_json(file)
    with suppress(LookupError, TypeError, AttributeError):
        if table := shown.table(found):
            return f"{found['device']}, {found['date']}, torch {found['torch']}, triton {found['triton']}\n\n{table}"
    raise Mistake(f"{file}: no figures of `labkit bench train`, `attention` or `kernels`; give --save FILE to one")


def _on_a_gpu() -> None:
    import torch

    from labkit.spec import Mistake

    if not torch.cuda.is_available():
        raise Mistake("bench measures a GPU, and torch sees none here")
    torch.manual_seed(0)


def _chosen(option: str, text: str, known: Collection[str]) -> list[Any]:
    """The names in a list, all where it is empty. Raises Mistake for one that is none."""
    from labkit.faults import closest
    from labkit.spec import Mistake

    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise Mistake(f"{option}: there is no {name!r}.{closest(name, list(known))}")
    return list(dict.fromkeys(names)) or list(known)


def _show(
    console: "Console",
    rows: Iterable[Any],
    line: Callable[[Any], str],
    header: str,
    *,
    as_json: bool,
    save: Path | None,
) -> None:
    """A row as soon as it is measured; as JSON all of them at the end, in a file after each."""
    from labkit.tracking import atomic

    document: dict[str, Any] = {"version": VERSION, **_machine(), "rows": []}
    if save:
        atomic.write_json(save, document)
    if not as_json:
        console.show(", ".join(f"{name} {value}" for name, value in document.items() if isinstance(value, str)))
        console.show(header, whole=True)
    for row in rows:
        document["rows"].append(asdict(row))
        if not as_json:
            console.show(line(row), whole=True)
        if save:
            atomic.write_json(save, document)
    if as_json:
        write_json(console, document)


def _machine() -> dict[str, str]:
    """The device, the day, and the versions of what is installed."""
    import importlib.metadata as installed

    import torch

    machine = {"device": torch.cuda.get_device_name(), "date": time.strftime("%Y-%m-%d")}
    for name in LIBRARIES:
        with suppress(installed.PackageNotFoundError):
            machine[name] = installed.version(name)
    return machine
