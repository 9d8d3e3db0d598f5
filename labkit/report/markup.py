"""HTML: the few elements that the report is made of; every text is escaped here."""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labkit.report.drawing import Plot
from labkit.report.formats import NOTHING
from labkit.report.theme import stroke


@dataclass(frozen=True)
class Cell:
    """A table's cell: finished HTML and its classes."""

    html: str
    classes: str = ""
    rows: int = 1
    """How many rows it spans."""


def text(value: object) -> str:
    """The value as HTML shows it letter for letter."""
    return html.escape(str(value))


def prose(value: str) -> str:
    """A sentence, with the minus sign that fits its numbers."""
    return re.sub(r"(?<![\w)\]])-(?=\d)", "−", text(value))


def sentences(value: str) -> str:
    """The same, with what is to be typed between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", prose(value))


def number(value: str, classes: str = "") -> Cell:
    """A formatted number, to the right, with the minus sign that fits it."""
    return Cell("–" if value == NOTHING else text(value).replace("-", "−"), f"right {classes}".strip())


def words(value: object, classes: str = "") -> Cell:
    return Cell(text(value), classes)


def code(value: object) -> Cell:
    return Cell(f"<code>{text(value)}</code>")


def link(address: str, words: str) -> str:
    """The words, leading somewhere where there is somewhere to lead."""
    return f'<a href="{text(address)}">{words}</a>' if address else words


def status(value: str) -> Cell:
    return Cell(f'<span class="status {text(value)}">{text(value)}</span>')


def named(index: int, name: str, rows: int = 1) -> Cell:
    """An arm's name beside its stroke."""
    return Cell(f"{swatch(index)}{text(name)}", "wide", rows)


def swatch(index: int) -> str:
    """A short piece of an arm's line."""
    look = stroke(index)
    dashes = f' stroke-dasharray="{" ".join(f"{length:g}" for length in look.dashes)}"' if look.dashes else ""
    line = f'<path d="M0 4H18" stroke="var(--{look.color})" stroke-width="3"{dashes}/>'
    return f'<svg class="swatch" viewBox="0 0 18 8" aria-hidden="true">{line}</svg>'


def table(headers: Sequence[Cell], body: Iterable[Sequence[Cell]]) -> str:
    head = "".join(_cell("th", cell) for cell in headers)
    rows = "\n".join(f"<tr>{''.join(_cell('td', cell) for cell in row)}</tr>" for row in body)
    return f'<div class="card scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>'


def _cell(tag: str, cell: Cell) -> str:
    classes = f' class="{cell.classes}"' if cell.classes else ""
    span = f' rowspan="{cell.rows}"' if cell.rows > 1 else ""
    return f"<{tag}{classes}{span}>{cell.html}</{tag}>"


def pairs(title: str, entries: Iterable[tuple[str, str]]) -> str:
    """A card of names and values; those without a value are left out."""
    lines = "".join(f"<dt>{text(name)}</dt><dd>{prose(value)}</dd>" for name, value in entries if value)
    return f'<section class="card"><h2>{text(title)}</h2><dl class="pairs">{lines}</dl></section>' if lines else ""


def figures(plots: Sequence[Plot]) -> str:
    return f'<div class="figures">{"".join(_figure(plot) for plot in plots)}</div>' if plots else ""


def _figure(plot: Plot) -> str:
    title, told = f"<h3>{text(plot.title)}</h3>", f"<figcaption>{text(plot.caption)}</figcaption>"
    return f'<figure class="card{" full" if plot.wide else ""}">{title}{plot.svg}{told}</figure>'


def legend(names: Sequence[str]) -> str:
    return f'<p class="legend">{"".join(f"<span>{swatch(i)}{text(name)}</span>" for i, name in enumerate(names))}</p>'


def document(title: str, style: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)}</title>
<style>
{style}
</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""
