"""Checkpoints: tensors in safetensors, the rest in JSON, in a folder that appears as a whole or not at all.

    checkpoints/step-000001200/{state.safetensors, state.json}     the latest only: masters, optimizer state, buffers,
                                                                   counters
    checkpoints/{final.safetensors, final.json}                    what a finished run leaves: its logical parameters,
                                                                   and its buffers

A torn folder is never used: the name appears by one rename, after everything below it is on disk.
"""

import itertools
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from labkit.optim.stepper import Stepper
from labkit.optim.weights import Weights
from labkit.tracking.atomic import Damaged, read_json, write_json
from labkit.train.buffers import restore, written
from labkit.train.tensors import write_tensors

VERSION = 1
SHARE = 1 / 20
"""The largest part of the time that checkpoints may take."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    path: Path
    facts: Mapping[str, Any]

    def tensors(self, device: torch.device) -> dict[str, Tensor]:
        with safe_open(self.path / "state.safetensors", framework="pt", device=str(device)) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)


class Checkpoints:
    """The checkpoints of one run; `identity` says what they belong to (the spec, the data): others are never read."""

    def __init__(self, folder: Path, identity: Mapping[str, str]) -> None:
        self.folder, self.identity = folder, dict(identity)

    def latest(self) -> Checkpoint | None:
        """The newest complete one; what cannot be read is passed over."""
        found = (self._read(path) for path in sorted(self.folder.glob("step-*"), reverse=True))
        return next((checkpoint for checkpoint in found if checkpoint), None)

    def at(self, step: int) -> Checkpoint | None:
        """The one after so many steps, if it is there and can be read."""
        return self._read(self.folder / _name(step))

    def _read(self, path: Path) -> Checkpoint | None:
        try:
            facts = read_json(path / "state.json")
        except Damaged:
            return None
        about = (facts.get("version"), facts.get("identity"), _name(facts.get("step")))
        whole = about == (VERSION, self.identity, path.name) and _is_whole(path / "state.safetensors")
        return Checkpoint(path, facts) if whole else None

    def save(self, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Write one, then remove all others."""
        fresh, path = self.folder / f".fresh-{os.getpid()}", self.folder / _name(step)
        if (latest := self.latest()) and latest.path == path:
            return
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        write_tensors(tensors, fresh / "state.safetensors")
        _to_disk(fresh / "state.safetensors")
        write_json(fresh / "state.json", {"version": VERSION, "identity": self.identity, "step": step, **facts})
        _to_disk(fresh)
        _remove(path)
        fresh.rename(path)
        _to_disk(self.folder)
        self._remove(all_but=path)

    def finish(self, weights: Weights, facts: Mapping[str, Any]) -> None:
        """Leave the logical parameters in their masters' precision, and the buffers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh, path = self.folder / f".final-{os.getpid()}", self.folder / "final.safetensors"
        parameters = {name: view.clone() for name, view in weights.logical().items()}
        write_tensors(parameters | written(weights.model), fresh)
        _to_disk(fresh)
        fresh.rename(path)
        write_json(self.folder / "final.json", {"version": VERSION, "identity": self.identity, **facts})

    def clear(self) -> None:
        """Remove all that a run could be resumed from."""
        self._remove(all_but=None)

    def _remove(self, all_but: Path | None) -> None:
        for path in (*self.folder.glob("step-*"), *self.folder.glob(".fresh-*")):
            if path != all_but:
                _remove(path)


class Cadence:
    """When the next checkpoint is due: after so many seconds, and never before twenty times what the last one took."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.took, self.last = seconds, 0.0, time.monotonic()

    def is_due(self, beside: int = 0) -> bool:
        """Whether it is, where so many other runs wait meanwhile, as this one does for theirs."""
        return time.monotonic() - self.last >= max(self.seconds, (1 + beside) * self.took / SHARE)

    def wrote(self, took: float) -> None:
        """A checkpoint has just been written, in so many seconds."""
        self.took, self.last = took, time.monotonic()


def packed(weights: Weights, optimizer: Stepper) -> dict[str, Tensor]:
    """Masters, optimizer state and buffers by name: ``weights/…``, ``optimizer/exp_avg/…`` and ``buffers/…``."""
    tensors = {f"weights/{name}": master for name, master in weights.masters.items()}
    for name, stepped in _stepped(optimizer).items():
        tensors |= {f"optimizer/{key}/{name}": value for key, value in optimizer.state[stepped].items()}
    return tensors | written(weights.model)


def unpack(tensors: Mapping[str, Tensor], weights: Weights, optimizer: Stepper) -> None:
    """Put what `packed` gave into live weights and their optimizer, where they are."""
    for name, master in weights.masters.items():
        master.copy_(tensors[f"weights/{name}"])
    stepped = _stepped(optimizer)
    for path, value in tensors.items():
        kind, _, rest = path.partition("/")
        if kind == "optimizer":
            key, _, name = rest.partition("/")
            optimizer.state[stepped[name]].setdefault(key, value).copy_(value)
    restore(weights.model, tensors)
    weights.publish()


def _stepped(optimizer: Stepper) -> dict[str, Tensor]:
    """What an optimizer steps, by name: masters, or logical parameters in them."""
    pairs = [zip(group["param_names"], group["params"], strict=True) for group in optimizer.param_groups]
    return dict(itertools.chain.from_iterable(pairs))


def _name(step: Any) -> str:
    return f"step-{step:09d}" if type(step) is int else ""


def _remove(path: Path) -> None:
    """Whatever lies there, for it need not be a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_whole(file: Path) -> bool:
    """Whether a file of tensors has the length that its header says."""
    try:
        with safe_open(file, framework="pt"):
            return True
    except (OSError, SafetensorError):
        return False


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
