"""What a run puts on record about how it was executed."""

import itertools
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from labkit import kernels
from labkit.components.attention import SelfAttention
from labkit.data import Store
from labkit.model import Transformer
from labkit.optim.weights import COMPUTE
from labkit.train.device import name, versions
from labkit.train.evaluate import longest_document, multiples
from labkit.train.execution import Made
from labkit.train.run import RunSpec, Runtime


def at_the_start(
    record: Mapping[str, Any],
    spec: RunSpec,
    runtime: Runtime,
    store: Store,
    *,
    model: Transformer,
    device: torch.device,
    made: Made,
    step: int,
    beside: int,
) -> dict[str, Any]:
    """Where, with what and on what the run is about to go on; `started` is when it first did.

    A run that was ever fast is fast, and every session that it was trained in is kept.
    """
    where = {"device": name(device), "mode": runtime.mode, "versions": versions(), "runtime": runtime.as_json()}
    sessions = _with_steps([*record.get("sessions", []), {"step": step, "started": time.time(), **where}])
    return {
        **where,
        "status": "running",
        "data": store.facts(),
        "mode": "fast" if any(session["mode"] == "fast" for session in sessions) else "exact",
        "kernels": kernels.on_device(device),
        "ways": ways(model, spec, runtime, device),
        "execution": made.how,
        "side_by_side": max(record.get("side_by_side", 1), beside),
        "precision": spec.precision,
        "sessions": sessions,
        "notes": [*notes(spec, store), *shared(runtime), *made.notes("step"), *moves(sessions)],
        "started": record.get("started") or time.time(),
        "ended": None,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "diverged_at": None,
        "diverged_by": "",
        "error": None,
    }


def ways(model: Transformer, spec: RunSpec, runtime: Runtime, device: torch.device) -> dict[str, str]:
    """What is computed in more than one way, and which one this run takes; where layers differ, any one counts."""
    which, length = kernels.on_device(device), spec.model.context
    layers = (module for module in model.modules() if isinstance(module, SelfAttention))
    by_cudnn = which == "triton" and spec.precision == "bf16" and any(layer.takes_cudnn(length) for layer in layers)
    logits = runtime.rows(spec.batch_size) * length, model.vocab_size, COMPUTE[spec.precision], device
    return {
        "attention": "cudnn" if by_cudnn else which,
        "head": "in chunks" if which == "triton" and kernels.in_chunks(*logits) else "whole",
    }


def moves(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was not the same in all sessions of a run, so that its last digits may not be those of one session."""
    fields = ("device", "mode", "versions", "runtime")
    told = [{**session, "runtime": _that_counts(session["runtime"])} for session in sessions]
    changed = [what for what in fields if len({json.dumps(session[what], sort_keys=True) for session in told}) > 1]
    return [f"resumed with another {what}: not bit for bit an uninterrupted run" for what in changed]


def _that_counts(runtime: Mapping[str, Any]) -> dict[str, Any]:
    """What of a runtime may change the last digits of a run."""
    told = {"data_parallel": 1, **runtime}
    return {name: value for name, value in told.items() if name not in ("side_by_side", "checkpoint_seconds")}


def shared(runtime: Runtime) -> list[str]:
    """That the batch was, where it was."""
    told = f"data parallel: {runtime.data_parallel} processes share each batch; another number changes the last digits"
    return [told] if runtime.data_parallel > 1 else []


def _with_steps(sessions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The sessions that steps are left of: the last, and those that the next one went on from."""
    pairs = itertools.pairwise(sessions)
    return [*(before for before, after in pairs if after["step"] > before["step"]), sessions[-1]]


def notes(spec: RunSpec, store: Store) -> list[str]:
    """What a reader of the numbers should know."""
    said: list[str] = []
    kept = multiples(spec, store)
    for multiple in spec.evaluation.beyond:
        if multiple not in kept:
            asked = f"evaluation.beyond: x{multiple} is {multiple * spec.model.context} tokens"
            found = f"the model reads {spec.model.reach or 'any number'}"
            longest = f"the longest validation document has {longest_document(store)}"
            said.append(f"{asked}, {found}, {longest}: not measured")
    return said
