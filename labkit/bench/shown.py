"""The figures of a machine as a table for a page: labkit's two modes beside the best peer of each model."""

from pathlib import Path
from typing import Any

from labkit.bench.peers import PEERS
from labkit.bench.setups import SETUPS

FIGURES = Path(__file__).with_name("h200.json")
"""What `labkit bench train --save` wrote on one H200."""

COLUMNS = (
    "parameters", "tokens a step", "exact", "fast", "the best peer", "exact, fast / peer", "a step / its floor",
    "first step, peer's", "peak GiB, peer's",
)  # fmt: skip


def table(document: dict[str, Any]) -> str:
    """In Markdown, from what a benchmark of training steps wrote."""
    found = [_line(setup, _rows(document, setup)) for setup in SETUPS]
    lines = [COLUMNS, ("---:",) * len(COLUMNS), *(line for line in found if line)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rows(document: dict[str, Any], setup: str) -> list[dict[str, Any]]:
    return [row for row in document["rows"] if row["setup"] == setup]


def _line(setup: str, rows: list[dict[str, Any]]) -> tuple[str, ...]:
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


def _count(number: float, thousand: int = 1000) -> str:
    """To three digits: 600k, 3.59M."""
    for unit in ("", "k", "M", "B"):
        if number < 999.5 or unit == "B":
            return f"{number:.3g}{unit}"
        number /= thousand
    raise AssertionError
