"""The report's files, beside the runs that they are made from: page, Markdown, LaTeX, drawings, rows for MLflow."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from labkit.report.board import board
from labkit.report.comparison import Comparison, compare
from labkit.report.latex import latex
from labkit.report.page import Drawings, page
from labkit.report.pictures import pictures
from labkit.tracking.atomic import write_bytes
from labkit.tracking.record import Edition

PAGE, MARKDOWN, LATEX, FIGURES = "report.html", "report.md", "report.tex", "figures"

STAMP = ".report"
"""What the files there were made from."""


def write(edition: Edition) -> Comparison:
    """Write the report into the edition's folder; the comparison that it shows. Verdicts enter the ledger.

    The same records give the same bytes, and what is there of them already is not made again. Raises Mistake where no
    experiment is described.
    """
    comparison = compare(edition)
    if comparison.look:
        edition.enter(comparison.look)
    stamp = _stamp(comparison).encode()
    if not ((edition.path / PAGE).exists() and _content(edition.path / STAMP) == stamp):
        _make(edition.path, comparison)
        write_bytes(edition.path / STAMP, stamp)
    return comparison


def _make(folder: Path, comparison: Comparison) -> None:
    drawings = Drawings.of(comparison)
    told = page(comparison, drawings).encode()
    _draw(folder / FIGURES, drawings, comparison)
    write_bytes(folder / MARKDOWN, comparison.markdown().encode())
    write_bytes(folder / LATEX, latex(comparison).encode())
    write_bytes(folder / PAGE, told)
    board(comparison, _files(folder)).write(folder)


def _stamp(comparison: Comparison) -> str:
    """Of all that the files are made from: figures, curves, links, and the code that makes them."""
    curves = [[str(run.run.path), run.run.written, run.record, run.shown] for run in comparison.outcomes]
    code = [[file.name, file.stat().st_mtime_ns] for file in sorted(Path(__file__).parent.glob("*.py"))]
    told = [comparison.as_json(), comparison.charts, curves, code]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _draw(folder: Path, drawings: Drawings, comparison: Comparison) -> None:
    """Every drawing as SVG and PNG; those of an earlier report that this one has not go."""
    folder.mkdir(exist_ok=True)
    fresh = dict(pictures(drawings.all))
    for old in _shown(folder):
        if old.name not in fresh:
            old.unlink(missing_ok=True)
    for name, content in fresh.items():
        write_bytes(folder / name, content)


def _files(folder: Path) -> tuple[str, ...]:
    figures = sorted(f"{FIGURES}/{file.name}" for file in _shown(folder / FIGURES))
    return (PAGE, MARKDOWN, LATEX, *figures)


def _shown(folder: Path) -> Iterable[Path]:
    """The drawings there, without those that another process is about to put there."""
    return folder.glob("[!.]*")


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""
