"""What a person sees: live bars on a terminal, plain lines in a pipe, tables. The only module that imports rich.

Everything goes to standard error except tables, which are results. Nothing in a pipe is a control character.
"""

import os
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console as Terminal
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from labkit.tracking.progress import Advance, Progress

PIPE_WIDTH = 200
PLAIN_EVERY = 10.0
"""Seconds between two plain lines about one thing."""

NOTABLE = 2.0
"""Seconds that work takes for its end to be told."""

WIDEST_WORD = 24
"""Characters that a column of a table keeps together, however narrow the terminal."""

Cells = Sequence[str]


class Console(Progress):
    """The user's terminal, or the file or pipe in its place."""

    def __init__(self) -> None:
        self.err = _terminal(stderr=True)
        self.out = _terminal(stderr=False)
        self.live = _interactive(self.err)

    def say(self, text: str = "", style: str = "") -> None:
        """A line for the person; in a pipe it stays one line."""
        self.err.print(Text(text, style), soft_wrap=not self.err.is_terminal)

    def show(self, text: str) -> None:
        """A line that is a result."""
        self.out.print(Text(text), soft_wrap=not self.out.is_terminal)

    def document(self, text: str) -> None:
        """A whole machine-readable document on standard output, byte for byte."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def table(
        self, title: str, columns: Cells, rows: Sequence[Cells], styles: Sequence[str] = (), left: int = 1
    ) -> None:
        """A table of texts, its first `left` columns left-aligned; `styles` colours whole rows."""
        table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for index, column in enumerate(columns):
            side, word = "left" if index < left else "right", _longest_word([column, *(row[index] for row in rows)])
            table.add_column(Text(column), justify=side, overflow="fold", min_width=min(word, WIDEST_WORD))
        for index, row in enumerate(rows):
            style = styles[index] if index < len(styles) else ""
            table.add_row(*(Text(cell, style) for cell in row))
        with self.out.capture() as drawn:
            self.out.print(table)
        lines = (line.rstrip() for line in drawn.get().splitlines())
        self.out.print(Text(title, "bold"), soft_wrap=True)
        sys.stdout.write("\n".join(line for line in lines if line) + "\n\n")

    @contextmanager
    def task(self, description: str, total: float | None = None, unit: str = "") -> Generator[Advance]:
        """A bar for one stage of work, gone when it is over; in a pipe a line now and then."""
        if not self.live:
            yield _Plain(self, description, total, unit).advance
            return
        counted = DownloadColumn() if unit in ("B", "bytes") else MofNCompleteColumn()
        columns = (TextColumn("{task.description}"), BarColumn(), counted, TextColumn(unit), TimeRemainingColumn())
        with Bars(*columns, console=self.err, transient=True) as bars:
            bar = bars.add_task(description, total=total)
            yield lambda amount: bars.advance(bar, amount)

    @contextmanager
    def busy(self, what: str) -> Generator[None]:
        """Show on a terminal that something goes on whose length nobody knows."""
        if not self.live:
            yield
            return
        with self.err.status(Text(what)):
            yield

    @contextmanager
    def gauges(self) -> Generator["Gauges"]:
        """Several bars that are set as things go on, below whatever is said meanwhile."""
        if not self.live:
            yield Gauges(self)
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(32),
            TextColumn("{task.fields[note]}", markup=False),
        )
        with Bars(*columns, console=self.err, transient=True, refresh_per_second=5) as bars:
            yield _LiveGauges(self, bars)


class Gauges:
    """How far several things are; in a pipe each is told every ten seconds."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.told: dict[str, float] = {}

    def set(self, name: str, done: float, total: float, note: str) -> None:
        """Show `name` at done / total, with a short text on the right."""
        if time.monotonic() - self.told.setdefault(name, time.monotonic()) >= PLAIN_EVERY:
            self.told[name] = time.monotonic()
            self.console.say(f"{name}  {note}")

    def drop(self, name: str) -> None:
        """Show `name` no longer."""
        self.told.pop(name, None)


class _LiveGauges(Gauges):
    def __init__(self, console: Console, bars: Bars) -> None:
        super().__init__(console)
        self.bars = bars
        self.ids: dict[str, TaskID] = {}

    def set(self, name: str, done: float, total: float, note: str) -> None:
        if name not in self.ids:
            self.ids[name] = self.bars.add_task(name, note="")
        self.bars.update(self.ids[name], completed=done, total=total, note=note)

    def drop(self, name: str) -> None:
        if name in self.ids:
            self.bars.remove_task(self.ids.pop(name))


class _Plain:
    """A stage of work told in lines, when it takes long: every ten seconds, and at its end."""

    def __init__(self, console: Console, description: str, total: float | None, unit: str) -> None:
        self.console, self.description, self.total, self.unit = console, description, total, unit
        self.done, self.begun, self.told = 0.0, time.monotonic(), time.monotonic()

    def advance(self, amount: float) -> None:
        self.done += amount
        over = self.total is not None and self.done >= self.total
        now, silence = time.monotonic(), NOTABLE if over else PLAIN_EVERY
        if now - (self.begun if over else self.told) >= silence:
            self.told = now
            of = f" of {brief(self.total)}" if self.total else ""
            self.console.say(f"{self.description}: {brief(self.done)}{of} {self.unit}".rstrip())


def _longest_word(texts: Cells) -> int:
    return max((len(word) for text in texts for word in text.split()), default=0)


def brief(number: float) -> str:
    """A number in at most five characters: 950, 4.1k, 170k, 10.7M."""
    for unit in ("", "k", "M", "G", "T", "P", "E"):
        if abs(number) < 999.5 or unit == "E":
            break
        number /= 1000
    digits = 0 if (not unit and number == int(number)) or abs(number) >= 99.95 else 1
    return f"{number:.{digits}f}{unit}"


def _terminal(*, stderr: bool) -> Terminal:
    stream = sys.stderr if stderr else sys.stdout
    width: dict[str, Any] = {} if stream.isatty() else {"width": PIPE_WIDTH}
    return Terminal(stderr=stderr, highlight=False, **width)


def _interactive(terminal: Terminal) -> bool:
    """Whether lines may be redrawn: FORCE_COLOR asks for colour in a pipe, not for an animation."""
    asked = os.environ.get("TTY_INTERACTIVE") == "1"
    return terminal.is_interactive and (terminal.file.isatty() or asked)
