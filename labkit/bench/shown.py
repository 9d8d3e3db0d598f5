"""The figures of a machine as tables for a page, in Markdown, from what `labkit bench … --save` wrote."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from labkit.bench.attention import AGAIN
from labkit.bench.attention import PEERS as ATTENTIONS
from labkit.bench.peers import PEERS
from labkit.bench.setups import SETUPS

FIGURES = tuple(Path(__file__).with_name("h200") / f"{kind}.json" for kind in ("train", "attention", "kernels"))
"""What was measured of one H200."""

Document = dict[str, Any]
Rows = list[dict[str, Any]]

LIBRARIES = ("torch", "compile", "liger")


def table(document: Document) -> str:
    """Of whole steps, attention or single operations; empty where it holds none of them."""
    rows: Rows = document["rows"]
    for key, lines in KINDS.items():
        if any(key in row for row in rows):
            return lines(rows)
    return ""


def of_steps(rows: Rows) -> str:
    """labkit's two modes beside the best peer of each model."""
    columns = (
        "parameters", "tokens a step", "exact", "fast", "the best peer", "exact, fast / peer", "a step / its floor",
        "first step, peer's", "peak GiB, peer's",
    )  # fmt: skip
    found = [_step(setup, [row for row in rows if row["setup"] == setup]) for setup in SETUPS]
    return _markdown(columns, filter(None, found), numbers=0)


def _step(setup: str, rows: Rows) -> tuple[str, ...]:
    ours = {row["mode"]: row for row in rows if row["name"] == "labkit"}
    peers = sorted((row for row in rows if row["name"] in PEERS), key=lambda row: row["above_floor"])
    if not {"exact", "fast"} <= ours.keys() or not peers:
        return ()
    modes, best, sizes = [ours["exact"], ours["fast"]], peers[0], SETUPS[setup]
    return (
        _count(sizes.params),
        _count(sizes.tokens, 1024),
        *(_count(row["tokens_per_s"]) for row in modes),
        f"{best['name']} {_count(best['tokens_per_s'])}",
        ", ".join(f"{row['beside_best']:.2f}" for row in modes),
        ", ".join(f"{row['above_floor']:.2f}" for row in modes),
        f"{modes[0]['first_step']:.1f} s, {best['first_step']:.0f} s",
        f"{modes[0]['memory']:.1f}, {best['memory']:.1f}",
    )


def of_attention(rows: Rows) -> str:
    """Milliseconds forward and backward by shape, and how many of the calls differed."""
    names = ("labkit", *ATTENTIONS)
    times = {(row["shape"], row["name"]): row for row in rows}

    def cell(shape: str, name: str) -> str:
        row = times.get((shape, name))
        if row is None:
            return "–"
        return f"{row['both']:.2f}" + (f" ({row['differing']} of {AGAIN} differ)" if row["differing"] else "")

    shapes = dict.fromkeys(row["shape"] for row in rows if row["name"] == "labkit")
    return _markdown(("shape", *names), ([shape, *(cell(shape, name) for name in names)] for shape in shapes))


def of_operations(rows: Rows) -> str:
    """Of each operation, over its sizes: the share of its limit, and how many times as fast as each peer."""
    columns = ("operation", "sizes", "of its limit", *(f"x {name}" for name in LIBRARIES))
    groups: dict[str, Rows] = {}
    for row in rows:
        if "labkit" in row["both"]:
            groups.setdefault(row["op"], []).append(row)
    return _markdown(columns, (_operation(op, group) for op, group in groups.items()))


def _operation(op: str, rows: Rows) -> tuple[str, ...]:
    faster = ([row["both"][name] / row["both"]["labkit"] for row in rows if name in row["both"]] for name in LIBRARIES)
    shares = [row["copy"] / row["both"]["labkit"] for row in rows]
    return op, str(len(rows)), _span(shares, "{:.0%}"), *(_span(times, "{:.1f}") for times in faster)


def _span(numbers: Sequence[float], form: str) -> str:
    """From the least to the most of them."""
    ends = [form.format(end) for end in (min(numbers), max(numbers))] if numbers else ["–"]
    return " to ".join(dict.fromkeys(ends))


KINDS: dict[str, Callable[[Rows], str]] = {
    "above_floor": of_steps,
    "differing": of_attention,
    "copy": of_operations,
}
"""By what the rows of a benchmark have."""


def _markdown(columns: Sequence[str], lines: Iterable[Sequence[str]], *, numbers: int = 1) -> str:
    """From column `numbers` on to the right."""
    rule = [":---" if column < numbers else "---:" for column in range(len(columns))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, rule, *lines))


def _count(number: float, thousand: int = 1000) -> str:
    """To three digits: 600k, 3.59M."""
    for unit in ("", "k", "M", "B"):
        if number < 999.5 or unit == "B":
            return f"{number:.3g}{unit}"
        number /= thousand
    raise AssertionError
