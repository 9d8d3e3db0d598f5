"""What an arm's spec differs in from another's baseline, beyond the change that makes it a variant of its own."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labkit.report.arms import Arm
from labkit.report.formats import listed
from labkit.spec import shown
from labkit.tracking.mlflow.params import flat

Apart = Mapping[str, tuple[str, str]]
"""Path -> (in the one, in the other)."""

SEED = "seed"
"""What the runs of one arm differ in."""

ABSENT = "–"

ROOM = 1
"""How many paths are told in a row of a table; a line below has all."""


def apart(arm: Arm, base: Arm) -> Apart:
    """All that an arm's runs differ in from another arm's, as the recorded specs say; empty where one has no run."""
    here, there = (dict(flat(_spec(one))) for one in (base, arm))
    if not here or not there:
        return {}
    paths = [path for path in {**here, **there} if here.get(path, ABSENT) != there.get(path, ABSENT)]
    kept = [path for path in paths if not _within(path, [SEED, *(other for other in paths if other != path)])]
    return {path: (shown(here.get(path, ABSENT)), shown(there.get(path, ABSENT))) for path in kept}


def beyond(arm: Arm, base: Arm) -> Apart:
    """The same without what is the arm's own change: what a comparison with this base mixes with it."""
    found = apart(arm, base)
    return {path: values for path, values in found.items() if not _within(path, [*arm.changes])}


def _within(path: str, places: Sequence[str]) -> bool:
    """Whether it is one of the places, or lies below one."""
    return any(path == place or path.startswith(f"{place}.") for place in places)


def _spec(arm: Arm) -> dict[str, Any]:
    return arm.outcomes[0].run.spec() if arm.outcomes else {}


def briefly(found: Apart) -> str:
    """``optimizer.lr 0.001 → 0.002 and 2 more``, for a cell; empty without a difference."""
    told, more = list(_told(found)), len(found) - ROOM
    return listed([*told[:ROOM], f"{more} more"]) if more > 0 else listed(told)


def in_full(found: Apart) -> str:
    return listed(_told(found))


def _told(found: Apart) -> Iterator[str]:
    return (f"{path} {here} → {there}" for path, (here, there) in found.items())
