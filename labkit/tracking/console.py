"""What a person sees: live bars on a terminal, plain lines in a pipe, tables. The only module that imports rich.

Everything goes to standard error except tables, which are results. Nothing in a pipe is a control character. Nothing
redraws by itself: what is live is drawn again when it is told to, under the lock that every printed line takes, so that
a line never lands between two halves of a picture.
"""

import os
import sys
import threading
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console as Terminal
from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from labkit.tracking.progress import Advance, Progress

PIPE_WIDTH = 200
PLAIN_EVERY = 10.0
"""Seconds between two plain lines about one thing."""

PATIENCE = 3.0
"""Seconds until work that mostly takes no time is told of."""

NOTABLE = 2.0
"""Seconds that work takes for its end to be told."""

WIDEST_WORD = 24
"""Characters that a column of a table keeps together, however narrow the terminal."""

REDRAWN = 0.1
"""Seconds between two pictures of a bar, at least."""

BAR = 32
"""Characters of a gauge's bar, at most."""

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

    def show(self, text: str, *, whole: bool = False) -> None:
        """A line that is a result; a `whole` one is never broken, so that it can be clicked and copied."""
        self.out.print(Text(text), soft_wrap=whole or not self.out.is_terminal)

    def document(self, text: str) -> None:
        """A whole machine-readable document on standard output, byte for byte."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def table(
        self,
        title: str,
        columns: Cells,
        rows: Sequence[Cells],
        styles: Sequence[str] = (),
        *,
        left: int = 1,
        spare: Cells = (),
        note: str = "",
        words: Cells = (),
    ) -> None:
        """A table of texts, its first `left` columns and those of `words` left-aligned; `styles` colours whole rows.

        A `note` stands above.

        Nothing is cut: where the terminal is too narrow the `spare` columns are left out, in their order, and named;
        where that does not help, each row becomes a paragraph. A pipe is as wide as need be.
        """
        texts = {*columns[:left], *words}
        width = self.out.width if self.out.is_terminal else max(self.out.width, _narrowest(columns, rows, texts))
        left_out = _left_out(columns, rows, texts, spare, width)
        kept = [index for index, column in enumerate(columns) if column not in left_out]
        heads, body = [columns[index] for index in kept], [[row[index] for index in kept] for row in rows]
        self.out.print(Text(title, "bold"), soft_wrap=" " not in title or not self.out.is_terminal)
        if note:
            self.show(note)
        if _narrowest(heads, body, texts) > width:
            self._stack(columns, rows, styles)
        else:
            self._draw(heads, body, styles, texts, width)
            if left_out:
                self.show(f"left out for want of room: {', '.join(left_out)}", whole=True)
        self.out.print()

    def _draw(
        self, columns: Cells, rows: Sequence[Cells], styles: Sequence[str], texts: Collection[str], width: int
    ) -> None:
        table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for column, size in zip(columns, _widths(columns, rows, texts, width), strict=True):
            table.add_column(Text(column), justify="left" if column in texts else "right", overflow="fold", width=size)
        for index, row in enumerate(rows):
            style = styles[index] if index < len(styles) else ""
            table.add_row(*(Text(cell, style) for cell in row))
        with self.out.capture() as drawn:
            self.out.print(table, width=width)
        lines = (line.rstrip() for line in drawn.get().splitlines())
        sys.stdout.write("".join(f"{line}\n" for line in lines if line))

    def _stack(self, columns: Cells, rows: Sequence[Cells], styles: Sequence[str]) -> None:
        for index, row in enumerate(rows):
            self.out.print(Text(f" {row[0]}", styles[index] if index < len(styles) else "bold"), soft_wrap=True)
            for column, cell in zip(columns[1:], row[1:], strict=True):
                if cell:
                    self.out.print(Text(f"    {column}  {cell}" if column else f"    {cell}"), soft_wrap=True)

    @contextmanager
    def task(self, description: str, total: float | None = None, unit: str = "") -> Generator[Advance]:
        """A bar for one stage of work, gone when it is over; in a pipe a line now and then."""
        if not self.live:
            yield _Plain(self, description, total, unit).advance
            return
        counted = DownloadColumn() if unit in ("B", "bytes") else MofNCompleteColumn()
        columns = (TextColumn("{task.description}"), BarColumn(), counted, TextColumn(unit), TimeRemainingColumn())
        with Bars(*columns, console=self.err, transient=True, auto_refresh=False) as bars:
            bar, drawn = bars.add_task(description, total=total), 0.0

            def advance(amount: float) -> None:
                nonlocal drawn
                bars.advance(bar, amount)
                if (now := time.monotonic()) - drawn >= REDRAWN:
                    drawn = now
                    with self.err.whole:
                        bars.refresh()

            yield advance

    @contextmanager
    def busy(self, what: str) -> Generator[None]:
        """Show on a terminal that something goes on whose length nobody knows."""
        if not self.live:
            yield
            return
        with _picture(self.err) as picture:
            picture.show([Text(f"… {what}")])
            yield

    @contextmanager
    def slow(self, what: str) -> Generator[None]:
        """Say a line where it takes longer than a few seconds, while it goes on."""
        timer = threading.Timer(PATIENCE, self.say, (what,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    @contextmanager
    def gauges(self) -> Generator["Gauges"]:
        """Several bars that are set as things go on, below whatever is said meanwhile."""
        if not self.live:
            yield Gauges(self)
            return
        with _picture(self.err) as picture:
            yield _LiveGauges(self, picture)


class Gauges:
    """How far several things are; in a pipe each is told every ten seconds, if there is news."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.told: dict[str, tuple[float, str]] = {}

    def set(self, name: str, done: float, total: float, note: str) -> None:
        """Have `name` at done / total, with a short text on the right."""
        when, before = self.told.setdefault(name, (time.monotonic(), ""))
        if time.monotonic() - when >= PLAIN_EVERY and note != before:
            self.told[name] = (time.monotonic(), note)
            self.console.say(f"{name}  {note}")

    def drop(self, name: str) -> None:
        """Have `name` no longer."""
        self.told.pop(name, None)

    def show(self) -> None:
        """Draw what was set."""


class _LiveGauges(Gauges):
    def __init__(self, console: Console, picture: "_Picture") -> None:
        super().__init__(console)
        self.picture = picture
        self.bars: dict[str, tuple[float, str]] = {}

    def set(self, name: str, done: float, total: float, note: str) -> None:
        self.bars[name] = (done / total if total else 0.0, note)

    def drop(self, name: str) -> None:
        self.bars.pop(name, None)
        self.picture.show(self._lines(), now=False)  # the next line that is said draws it

    def show(self) -> None:
        self.picture.show(self._lines())

    def _lines(self) -> list[Text]:
        texts = max((len(name) + len(note) for name, (_, note) in self.bars.items()), default=0)
        length = min(BAR, self.console.err.width - texts - 5)
        return [_gauge(name, share, note, length) for name, (share, note) in self.bars.items()]


def _gauge(name: str, share: float, note: str, length: int) -> Text:
    """``name ━━━━━━──── note``; without the bar where there is no room for one."""
    if length < 4:
        return Text(f"{name} {note}")
    full = max(0, min(length, round(share * length)))
    return Text.assemble(f"{name} ", ("━" * full, "cyan"), ("─" * (length - full), "dim"), f" {note}")


class _Picture:
    """Lines at the end of a terminal that are drawn again in place."""

    def __init__(self, terminal: "_Terminal", live: Live) -> None:
        self.terminal, self.live = terminal, live

    def show(self, lines: Sequence[Text], *, now: bool = True) -> None:
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        with self.terminal.whole:
            self.live.update(Group(*lines), refresh=now)


@contextmanager
def _picture(terminal: "_Terminal") -> Generator[_Picture]:
    live = Live(console=terminal, auto_refresh=False, transient=True)
    with terminal.whole:
        live.start()
    try:
        yield _Picture(terminal, live)
    finally:
        with terminal.whole:
            live.stop()


class _Terminal(Terminal):
    """A terminal on which lines of several threads never mix with one another or with a picture."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.whole = threading.RLock()

    def print(self, *objects: Any, **options: Any) -> None:
        with self.whole:
            super().print(*objects, **options)


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


def _narrowest(columns: Cells, rows: Sequence[Cells], texts: Collection[str]) -> int:
    """The least width of a table that breaks no word and no number."""
    return sum(_floors(columns, rows, texts)) + 2 * len(columns)


def _floors(columns: Cells, rows: Sequence[Cells], texts: Collection[str]) -> list[int]:
    """Each column's least width: a text's longest word, a number whole."""
    return [
        max(_least(column, word=True), *(_least(row[index], word=column in texts) for row in rows), 1)
        for index, column in enumerate(columns)
    ]


def _least(text: str, *, word: bool) -> int:
    longest = max((cell_len(part) for part in text.split()), default=0)
    return min(longest if word or cell_len(text) > WIDEST_WORD else cell_len(text), WIDEST_WORD)


def _widths(columns: Cells, rows: Sequence[Cells], texts: Collection[str], width: int) -> list[int]:
    """Each column's width: what it wants, the widest made narrower until all of them fit."""
    floors, room = _floors(columns, rows, texts), width - 2 * len(columns)
    wants = [max(cell_len(text) for text in (column, *(row[i] for row in rows))) for i, column in enumerate(columns)]
    cap = max(wants)
    while sum(widths := [max(floor, min(want, cap)) for floor, want in zip(floors, wants, strict=True)]) > room:
        cap -= 1
    return widths


def _left_out(columns: Cells, rows: Sequence[Cells], texts: Collection[str], spare: Cells, width: int) -> list[str]:
    """The columns that have to go before the rest fits, or all that may."""
    gone: list[str] = []
    for name in (name for name in spare if name in columns):
        kept = [index for index, column in enumerate(columns) if column not in gone]
        if _narrowest([columns[i] for i in kept], [[row[i] for i in kept] for row in rows], texts) <= width:
            break
        gone.append(name)
    return gone


def brief(number: float) -> str:
    """A number in at most five characters: 950, 4.1k, 170k, 10.7M."""
    for unit in ("", "k", "M", "G", "T", "P", "E"):
        if abs(number) < 999.5 or unit == "E":
            break
        number /= 1000
    digits = 0 if (not unit and number == int(number)) or abs(number) >= 99.95 else 1
    return f"{number:.{digits}f}{unit}"


def _terminal(*, stderr: bool) -> _Terminal:
    stream = sys.stderr if stderr else sys.stdout
    width: dict[str, Any] = {} if stream.isatty() else {"width": PIPE_WIDTH}
    return _Terminal(stderr=stderr, highlight=False, **width)


def _interactive(terminal: Terminal) -> bool:
    """Whether lines may be redrawn: FORCE_COLOR asks for colour in a pipe, not for an animation."""
    asked = os.environ.get("TTY_INTERACTIVE") == "1"
    return terminal.is_interactive and (terminal.file.isatty() or asked)
