"""The pipes between processes that tell each other objects, a line of JSON each, and nobody else's text among them.

A worker also runs its users' code and whatever libraries that uses, which print, read and close as they like: what was
standard input and output at the start is kept for the lines alone, on descriptors of their own.
"""

import json
import os
from typing import Any, TextIO


def kept() -> TextIO:
    """What was standard output; what is written there from now on goes where errors go."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(kept, "w")


def taken() -> int:
    """What was standard input; whoever reads there from now on is at its end."""
    kept, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return kept


def told(line: str | bytes) -> dict[str, Any]:
    """The object in a line; empty where there is none, as in half a line of a process that was killed."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
