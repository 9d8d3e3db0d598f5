"""The report's files, beside the runs that they are made from: page, Markdown, LaTeX, drawings, rows for MLflow."""

from pathlib import Path

from labkit.report.board import board
from labkit.report.comparison import Comparison, compare
from labkit.report.latex import latex
from labkit.report.page import Drawings, page
from labkit.report.pictures import pictures
from labkit.tracking.record import Edition, write_bytes

PAGE, MARKDOWN, LATEX, FIGURES = "report.html", "report.md", "report.tex", "figures"


def write(edition: Edition) -> Comparison:
    """Write the report into the edition's folder; the comparison that it shows. Verdicts enter the ledger.

    The same records give the same bytes, and drawings that are there are not drawn for files again. Raises Mistake
    where no experiment is described.
    """
    comparison = compare(edition)
    if comparison.look:
        edition.enter(comparison.look)
    drawings = Drawings.of(comparison)
    told = page(comparison, drawings).encode()
    if told != _content(edition.path / PAGE) or not (edition.path / FIGURES).is_dir():
        _draw(edition.path / FIGURES, drawings, comparison)
    write_bytes(edition.path / MARKDOWN, comparison.markdown().encode())
    write_bytes(edition.path / LATEX, latex(comparison).encode())
    write_bytes(edition.path / PAGE, told)
    board(comparison, _files(edition.path)).write(edition.path)
    return comparison


def _draw(folder: Path, drawings: Drawings, comparison: Comparison) -> None:
    """Every drawing as SVG and PNG; those of an earlier report that this one has not go."""
    folder.mkdir(exist_ok=True)
    fresh = dict(pictures(drawings.all, comparison.arms))
    for old in folder.iterdir():
        if old.name not in fresh:
            old.unlink()
    for name, content in fresh.items():
        write_bytes(folder / name, content)


def _files(folder: Path) -> tuple[str, ...]:
    figures = sorted(f"{FIGURES}/{file.name}" for file in (folder / FIGURES).iterdir())
    return (PAGE, MARKDOWN, LATEX, *figures)


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""
