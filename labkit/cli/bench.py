"""How fast labkit is on the GPU at hand, beside what else there is."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labkit.cli.application import answering, app, write_json
from labkit.cli.options import AsJson, Debug

if TYPE_CHECKING:
    from labkit.tracking.console import Console

bench = typer.Typer(help="Measure labkit's speed on this GPU, beside its peers.", no_args_is_help=True)
app.add_typer(bench, name="bench")

VERSION = 1


@bench.command()
def kernels(
    *,
    only: Annotated[str, typer.Option(metavar="OP,OP,…", help="Only these operations.", show_default="all")] = "",
    peers: Annotated[str, typer.Option(metavar="NAME,…", help="Of torch, compile, liger.")] = "torch",
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Each operation by width: GPU time, the time of a call, the share of the rate of a copy of as many bytes."""
    with answering(debug) as console:
        _on_a_gpu()
        from labkit.bench import kernels as operations

        wanted = _chosen("--only", only, operations.NAMES)
        against = _chosen("--peers", peers, ("torch", "compile", "liger"))
        _show(console, as_json, operations.bench(wanted, against), operations.line, operations.HEADER)


@bench.command()
def attention(
    *,
    peers: Annotated[str, typer.Option(metavar="NAME,…", help="Of cudnn, flash, flex.")] = "cudnn,flash,flex",
    options: Annotated[
        bool, typer.Option("--options", help="Also what windows, caps, sinks and the like cost.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Causal attention at four shapes: forward, and with backward, and how often the result differs from the first."""
    with answering(debug) as console:
        _on_a_gpu()
        from labkit.bench import attention as shapes

        against = tuple(_chosen("--peers", peers, shapes.PEERS))
        rows = shapes.compared(names=against, options=options)
        _show(console, as_json, rows, shapes.line, shapes.HEADER)


@bench.command()
def train(
    *,
    only: Annotated[
        str, typer.Option(metavar="NAME,…", help="Of launch-bound, 13M, 124M, 1B.", show_default="all")
    ] = "",
    contenders: Annotated[
        str, typer.Option("--with", metavar="NAME,…", help="Of labkit, labkit-eager, torch, torch-eager, compile.")
    ] = "labkit,torch,compile",
    steps: Annotated[int, typer.Option(min=1, metavar="N", help="So many steps, three times.")] = 20,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Whole training steps of four models: tokens per second, the first step, memory."""
    with answering(debug) as console:
        _on_a_gpu()
        from labkit.bench import train as whole

        setups = _chosen("--only", only, list(whole.SETUPS))
        names = _chosen("--with", contenders, list(whole.CONTENDERS))
        _show(console, as_json, whole.compared(setups, names, steps), whole.line, whole.HEADER)


def _on_a_gpu() -> None:
    import torch

    from labkit.spec import Mistake

    if not torch.cuda.is_available():
        raise Mistake("labkit bench measures a GPU, and torch sees none here")
    torch.manual_seed(0)


def _chosen(option: str, text: str, known: Collection[str]) -> list[str]:
    """The names in a list, all where it is empty. Raises Mistake for one that is none."""
    from labkit.spec import Mistake, closest

    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise Mistake(f"{option}: there is no {name!r}.{closest(name, list(known))}")
    return names or list(known)


def _show(console: "Console", as_json: bool, rows: Iterable[Any], line: Callable[[Any], str], header: str) -> None:
    """A row as soon as it is measured; as JSON all of them at the end."""
    import torch

    machine = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    found: list[Any] = []
    if not as_json:
        console.show(f"{machine['device']}, torch {machine['torch']}")
        console.show(header)
    for row in rows:
        found.append(row)
        if not as_json:
            console.show(line(row), whole=True)
    if as_json:
        write_json(console, {"version": VERSION, **machine, "rows": [asdict(row) for row in found]})
