"""Telling the arms apart by colour: the UI colours a run by a tag of its own, a group of runs by a hash of its name."""

from collections.abc import Sequence
from itertools import combinations

PALETTE = [
    *("#a6630c", "#c83243", "#b45091", "#8a63bf", "#434a93", "#137dae", "#04867d", "#308613", "#facb66", "#1f272d"),
    *("#445461", "#5f7281", "#8396a5", "#93320b", "#be501e", "#de7921", "#f2be88", "#115026", "#277c43", "#3ba65e"),
    *("#8ddda8", "#9e102c", "#c82d4c", "#e65b77", "#f792a6", "#0e538b", "#2272b4", "#4299e0", "#8acaff"),
]
"""The UI's colours, in its order."""

TAGS = ("variant", "arm", "group", "choice", "setting", "which")
"""Names for the tag that runs are grouped by: the UI's colours depend on it too."""

PATTERNS = ("{name}", "{name} #{place}", "{name} ({place})", "{name} | {place}", "{name}, {place}", "{name} /{place}")
"""How an arm is called in it; the UI cuts long names at their end. Its place comes in where colours would be alike."""

APART = 60.0
"""The distance in RGB from which two colours are told apart at a glance."""


def groups(names: Sequence[str]) -> tuple[str, list[str]]:
    """The tag to group by and its value for each arm: ``variant`` and its name if the colours allow."""
    ways = [
        (tag, [pattern.format(place=place, name=name) for place, name in enumerate(names)])
        for pattern in PATTERNS
        for tag in (TAGS if pattern == "{name}" else TAGS[1:])
    ]
    return next((way for way in ways if _closest(*way) >= APART), max(ways, key=lambda way: _closest(*way)))


def group_color(tag: str, value: str) -> str:
    """The colour that the UI gives to the group of runs whose tag has this value."""
    low = high = 0
    for character in f"tag.{tag}.{value}":
        low = (low + ord(character)) % 255
        high = (high + low) % 255
    return PALETTE[(low | high << 8) % len(PALETTE)]


def _closest(tag: str, values: list[str]) -> float:
    colors = [group_color(tag, value) for value in values]
    return min((_distance(one, other) for one, other in combinations(colors, 2)), default=APART)


def _distance(one: str, other: str) -> float:
    return sum((int(one[i : i + 2], 16) - int(other[i : i + 2], 16)) ** 2 for i in (1, 3, 5)) ** 0.5
