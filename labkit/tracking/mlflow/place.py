"""Where the UI of a store answers: at the store's own address, or for a file where `labkit ui` last showed it.

A page on disk cannot ask, so its links carry the address. `labkit ui` keeps its own beside the store, which the pages
written from then on lead to, and corrects those that are there already; before it has ever run, they lead to its usual
port. MLflow's copies of the pages follow with the next sync.
"""

import re
from pathlib import Path

from labkit.tracking.atomic import Damaged, read_json, write_bytes, write_json
from labkit.tracking.mlflow.store import database

HOST, PORT = "127.0.0.1", 5000
"""Where `labkit ui` shows a store that is a file, unless told otherwise."""

_LED = re.compile(rf"http://{re.escape(HOST)}:\d+(?=/#/experiments/)".encode())


def base(uri: str) -> str:
    """The address of the UI of a store."""
    return uri.rstrip("/") if uri.startswith("http") else _kept(uri) or f"http://{HOST}:{PORT}"


def keep(uri: str, address: str) -> None:
    """A store that is a file is shown at an address on this machine."""
    if (file := _file(uri)) and base(uri) != address:
        write_json(file, {"version": 1, "address": address})


def lead(page: Path, address: str) -> None:
    """Have the links of a page lead to the UI at another address on this machine."""
    told = page.read_bytes()
    if (led := _LED.sub(address.encode(), told)) != told:
        write_bytes(page, led)


def _kept(uri: str) -> str:
    """The address that was kept; empty where there is none that can be read."""
    try:
        kept = read_json(file).get("address", "") if (file := _file(uri)) else ""
    except Damaged:
        return ""
    return kept if isinstance(kept, str) else ""


def _file(uri: str) -> Path | None:
    store = database(uri)
    return store.with_name(f"{store.name}.ui.json") if store else None
