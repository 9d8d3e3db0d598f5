"""Values as Python that looks as formatters lay it out: on one line where it fits, else an item a line."""

import json
from collections.abc import Mapping
from typing import Any

WIDTH = 120


def laid(value: Any, indent: int = 0, room: int = WIDTH) -> str:
    """A value for a line that is indented so far and has so much room left."""
    line = _line(value)
    if len(line) <= room or not isinstance(value, Mapping | list | tuple) or not value:
        return line
    inner = " " * (indent + 4)
    heads: list[tuple[str, Any]] = [("", item) for item in value]
    if isinstance(value, Mapping):
        heads = [(f"{_line(key)}: ", item) for key, item in value.items()]
    items = [f"{inner}{head}{laid(item, indent + 4, WIDTH - indent - 5 - len(head))},\n" for head, item in heads]
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    return f"{opening}\n{''.join(items)}{' ' * indent}{closing}"


def _line(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_line(key)}: {_line(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_line, value)) + "]"
    return repr(value)
