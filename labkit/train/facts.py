"""What a run puts on record about how it was executed."""

import os
import socket
import time
from collections.abc import Mapping
from typing import Any

import torch

from labkit.data import Store
from labkit.train.device import name, versions
from labkit.train.evaluate import lengths
from labkit.train.run import RunSpec, Runtime


def at_the_start(
    record: Mapping[str, Any], spec: RunSpec, runtime: Runtime, store: Store, device: torch.device
) -> dict[str, Any]:
    """Where, with what and on what the run is about to go on; `started` is when it first did."""
    return {
        "status": "running",
        "data": store.facts(),
        "device": name(device),
        "mode": runtime.mode,
        "kernels": "torch",
        "precision": spec.precision,
        "versions": versions(),
        "runtime": runtime.as_json(),
        "notes": notes(spec, store, device),
        "started": record.get("started") or time.time(),
        "ended": None,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "diverged_at": None,
        "error": None,
    }


def notes(spec: RunSpec, store: Store, device: torch.device) -> list[str]:
    """What a reader of the numbers should know."""
    said: list[str] = []
    if spec.precision == "bf16" and device.type == "cpu":
        said.append("precision: bf16 on a CPU is slow; fp32 is faster here")
    for multiple in spec.evaluation.beyond:
        if multiple not in lengths(spec, store):
            asked = f"evaluation.beyond: x{multiple} is {multiple * spec.model.context} tokens"
            found = f"the model reads {spec.model.reach or 'any number'}, the validation split has {store.val.n_tokens}"
            said.append(f"{asked}, {found}: not measured")
    return said
