"""The report's files, beside the trials that they are made from: page, Markdown, rows for MLflow."""

from labkit.report.table import escaped
from labkit.sweep.board import board
from labkit.sweep.page import page
from labkit.sweep.story import Story, note
from labkit.tracking.atomic import write_bytes
from labkit.tracking.mlflow import Board
from labkit.tracking.record import Edition

PAGE, MARKDOWN = "report.html", "report.md"


def write(story: Story) -> None:
    """Write the report into the edition's folder."""
    folder = story.edition.path
    write_bytes(folder / MARKDOWN, f"# {escaped(story.title)}\n\n{note(story)}".encode())
    write_bytes(folder / PAGE, page(story).encode())
    board(story, (PAGE, MARKDOWN)).write(folder)


def are_there(edition: Edition) -> bool:
    """Whether the report was written, as a whole."""
    return (edition.path / PAGE).exists() and Board.read(edition.path) is not None
