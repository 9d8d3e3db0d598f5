"""What the command line shows of results and of the machine; it does without torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from labkit.report.comparison import Comparison
from labkit.tracking.console import Console

VERSION = 1

SPARE = ("tok/s",)
"""What a narrow terminal does without; the report's page has all of it."""


def show_comparison(console: Console, comparison: Comparison, page: Path) -> None:
    """The table of results, what it answers, and where to read on."""
    headers, rows, _ = comparison.brief_rows()
    styles = [STYLES.get(arm.verdict.word, "") for arm in comparison.variants]
    console.say()
    console.table(f"{comparison.title}  {comparison.header}", headers, rows, styles, spare=SPARE, words=headers[-1:])
    for line in lines(comparison.footing):
        console.show(line)
    console.say()
    if comparison.hypothesis:
        console.show(f"Hypothesis: {comparison.hypothesis}")
    console.show(comparison.answer)
    for note in comparison.notes:
        console.say(f"{note.kind}: {note.text}", "yellow")
    console.say()
    console.say(f"report  {page}")
    console.say("next    labkit ui", "")


SHORT = ("confounds", "diverged", "epochs")
"""What shares a line, where all of it fits."""

ROOM = 22
"""Characters that each has for it."""


def lines(footing: Sequence[tuple[str, str]]) -> list[str]:
    """A line a name; ``confounds none     diverged 0 of 25     epochs 0.8`` in one."""
    short = [f"{name} {text}" for name, text in footing if name in SHORT]
    if any(len(text) > ROOM for text in short):
        return [f"{name:<9} {text}" for name, text in footing]
    found: dict[str, str] = {}
    for name, text in footing:
        key = SHORT[0] if name in SHORT else name
        found[key] = "     ".join(short) if key == SHORT[0] else f"{name:<9} {text}"
    return list(found.values())


STYLES = {"win": "green", "loss": "red"}
"""Of a verdict's row."""


class Check(Protocol):
    """One thing that `labkit doctor` looks at."""

    @property
    def name(self) -> str: ...
    @property
    def ok(self) -> bool | None: ...
    @property
    def found(self) -> str: ...
    @property
    def remedy(self) -> str: ...


def show_checks(console: Console, checks: Sequence[Check]) -> None:
    """What is there, what is missing, and what to do about it."""
    words = {True: "ok", False: "missing", None: "note"}
    styles = {True: "", False: "red", None: "yellow"}
    rows = [[check.name, words[check.ok], check.found, check.remedy] for check in checks]
    console.table("doctor", ["what", "", "found", "remedy"], rows, [styles[check.ok] for check in checks], left=4)


def checks_as_json(checks: Sequence[Check]) -> dict[str, Any]:
    fields = ("name", "ok", "found", "remedy")
    return {"version": VERSION, "checks": [{field: getattr(check, field) for field in fields} for check in checks]}
