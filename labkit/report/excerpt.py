"""A comparison as a few elements of HTML, for a notebook's cell; and the whole page in a frame of its own."""

import html

from labkit.report.comparison import Comparison
from labkit.report.markup import prose, text

HEIGHT = 900
"""Pixels of the frame."""


def excerpt(comparison: Comparison) -> str:
    """The answer, the table, and what it rests on; the notebook gives it its looks."""
    headers, rows, sides = comparison.rows()
    aligned = [f' style="text-align:{side}"' for side in sides]
    head = "".join(f"<th{style}>{text(header)}</th>" for style, header in zip(aligned, headers, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{style}>{prose(cell)}</td>' for style, cell in zip(aligned, row, strict=True))}</tr>"
        for row in rows
    )
    told = [*comparison.footing, *((note.kind, note.text) for note in comparison.notes)]
    grounds = "<br>".join(f"<b>{text(name)}</b> {prose(words)}" for name, words in told)
    question = f"<p><b>{text(comparison.title)}</b> {text(comparison.question)}</p><p>{prose(comparison.answer)}</p>"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"{question}<p>{prose(comparison.header)}</p>{table}<p><small>{grounds}</small></p>"


def framed(page: str) -> str:
    """A whole page, whose style stays inside."""
    frame = f'width="100%" height="{HEIGHT}" style="border:0" loading="lazy"'
    return f'<iframe srcdoc="{html.escape(page, quote=True)}" {frame}></iframe>'
