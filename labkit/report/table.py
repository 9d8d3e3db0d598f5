"""The table of a comparison: as texts for any console, and as Markdown."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from labkit.report.arms import BITS, Arm
from labkit.report.formats import NOTHING, count, interval, percent, rate, signed, value
from labkit.report.words import shown

SIMULTANEOUS = "95 % simultaneous"

TEXT = "text±"
"""Half the width of the 95 % interval over documents."""

LEFT = frozenset({"variant", "arm", "verdict", "runs"})
"""Columns of words."""

Alignment = Literal["left", "right"]
Rows = tuple[list[str], list[list[str]], list[Alignment]]


def rows(arms: Sequence[Arm], metric: str) -> Rows:
    """Headers, one row an arm, and each column's alignment."""
    headers = ["variant", f"Δ {metric}", SIMULTANEOUS, TEXT, "verdict", metric, "spread", "bits/byte", "params"]
    headers, table = [*headers, "tokens/s", "runs"], [_row(arm) for arm in arms]
    alignments: list[Alignment] = ["left" if header in LEFT else "right" for header in headers]
    if metric != BITS:
        return headers, table, alignments
    kept = [index for index, header in enumerate(headers) if header != "bits/byte"]
    return [headers[i] for i in kept], [[row[i] for i in kept] for row in table], [alignments[i] for i in kept]


def brief_rows(arms: Sequence[Arm], metric: str) -> Rows:
    """One row a variant: its difference, its speed beside the baseline's, and its verdict."""
    headers = ["arm", f"Δ {metric}", SIMULTANEOUS, TEXT, "tok/s", "verdict"]
    alignments: list[Alignment] = ["left" if header in LEFT else "right" for header in headers]
    return headers, [_brief(arm, arms[0]) for arm in arms[1:]], alignments


def _brief(arm: Arm, baseline: Arm) -> list[str]:
    faster = percent(arm.tokens_per_s / baseline.tokens_per_s)
    return [arm.title, *_difference(arm), faster, shown(arm.verdict)]


def _difference(arm: Arm) -> list[str]:
    """With both of its intervals."""
    gap = arm.difference
    return [signed(gap.mean), interval(gap.low, gap.high), value(arm.text_error)]


def _row(arm: Arm) -> list[str]:
    return [
        arm.title,
        *_difference(arm),
        NOTHING if arm.is_baseline else shown(arm.verdict),
        value(arm.mean),
        value(arm.spread),
        value(arm.bits_per_byte),
        count(arm.params),
        rate(arm.tokens_per_s),
        tally(arm),
    ]


def tally(arm: Arm) -> str:
    """3 of 3; 2 of 3, 1 diverged; 1 of 3, 1 running, 1 missing"""
    others = [f"{number} {status}" for status, number in arm.counts.items() if status != "done"]
    return ", ".join([f"{len(arm.done)} of {arm.total}", *others])


def markdown(title: str, told: Mapping[str, str], table: Rows, notes: Sequence[tuple[str, str]]) -> str:
    """A page of Markdown: what is told under its names, the table, the notes; every text is escaped."""
    said = [f"**{name}** {escaped(words)}" if name else escaped(words) for name, words in told.items() if words]
    listed = "\n".join(f"- **{kind}** {escaped(words)}" for kind, words in notes)
    return "\n\n".join([f"# {escaped(title)}", *said, _table(table), *([listed] if listed else [])]) + "\n"


def _table(table: Rows) -> str:
    headers, body, alignments = table
    rule = ["---:" if alignment == "right" else "---" for alignment in alignments]
    cells = [headers, rule, *([escaped(cell) for cell in row] for row in body)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def escaped(text: str) -> str:
    """A text that Markdown shows as it is, on one line."""
    marked = re.sub(
        r"[\\`*|]|(?<!\w)_+|_+(?!\w)", lambda found: "".join(f"\\{c}" for c in found[0]), " ".join(text.split())
    )
    return marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
