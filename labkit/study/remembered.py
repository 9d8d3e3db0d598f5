"""Paces that were timed here before, kept in the cache, so that not every plan times the same shapes again."""

import hashlib
import json
import math
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from labkit.data.cache import cache_root, remembered
from labkit.study.executors import Slot
from labkit.study.pace import SAME, SECONDS, Pace
from labkit.tracking import source
from labkit.tracking.atomic import write_json
from labkit.train.device import versions

VERSION = 2


def recall(slots: Sequence[Slot], shapes: Mapping[str, str]) -> dict[str, Pace]:
    """The shapes whose pace is known, on this machine's devices, with this runtime, versions and number of workers.

    Each shape comes with the source of the user's components in it, as `keep` was told.
    """
    found = {key: _read(_file(slots, key, source)) for key, source in shapes.items()}
    return {key: pace for key, pace in found.items() if pace}


def keep(slots: Sequence[Slot], paces: Mapping[str, Pace], shapes: Mapping[str, str]) -> None:
    """Remember what was measured, by shape; where the cache cannot be written, nothing is lost but time."""
    for key, pace in paces.items():
        with suppress(OSError):
            write_json(_file(slots, key, shapes[key]), {"version": VERSION, **asdict(replace(pace, at=time.time()))})


def _read(file: Path) -> Pace | None:
    """The pace in a file; None where there is none that can be read."""
    told = remembered(file)
    figures = [told.get(name) for name in (*SECONDS, "at")]
    if told.get("version") != VERSION or not all(isinstance(x, int | float) and math.isfinite(x) for x in figures):
        return None
    *seconds, at = map(float, figures)  # pyright: ignore[reportArgumentType]
    if seconds[0] <= 0 or min(seconds) < 0 or not 0 < at < 2 * time.time():
        return None
    return Pace(source="remembered", at=at, **dict(zip(SECONDS, seconds, strict=True)))


def _file(slots: Sequence[Slot], key: str, own: str) -> Path:
    runtime = slots[0].runtime.as_json()
    here = [socket.gethostname(), [[slot.runtime.device, slot.environment] for slot in slots]]
    what = [key, own, here, {name: runtime[name] for name in SAME}, versions(), source.own()]
    digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
    return cache_root() / "paces" / f"{digest}.json"
