"""Leases: whose a running trial is. One whose owner is dead is given back, once, whoever notices it.

A trial carries its lease: the owner, a number that grows with every change of hands, and when it was last renewed.
An owner of this machine is dead when its process is; one of another machine when it has not renewed for `SECONDS`.
"""

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna import Study
from optuna.exceptions import DuplicatedStudyError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

SECONDS = 60.0
"""How long a lease holds without being renewed."""

KEY = "lease"


@dataclass(frozen=True)
class Lease:
    owner: str = ""
    change: int = 0
    renewed: float = 0.0

    @classmethod
    def of(cls, trial: FrozenTrial) -> "Lease":
        return cls(*trial.user_attrs.get(KEY, ()))

    def as_json(self) -> list[Any]:
        return [self.owner, self.change, self.renewed]


class Leases:
    """The leases of one study, as one process sees them."""

    def __init__(self, study: Study, storage: BaseStorage, seconds: float = SECONDS) -> None:
        self.study, self.storage, self.seconds = study, storage, seconds
        self.study_id = storage.get_study_id_from_name(study.study_name)
        self.me = identity()
        self.unowned: dict[tuple[str, int], float] = {}
        """When a trial, or a claim to one, was first seen with nobody to answer for it."""

    def take(self, number: int) -> None:
        """Own a trial that this process has just been given."""
        before = Lease.of(self._trial(number))
        self._write(number, Lease(self.me, before.change + 1, time.time()))

    def renew(self, number: int) -> None:
        if self.holds(number):
            self._write(number, Lease(self.me, Lease.of(self._trial(number)).change, time.time()))

    def holds(self, number: int) -> bool:
        """Whether the trial is still this process's own."""
        trial = self._trial(number)
        return trial.state == TrialState.RUNNING and Lease.of(trial).owner == self.me

    def give_back(self, number: int) -> None:
        """Let another one have the trial: the next that asks."""
        if self.holds(number):
            self._write(number, Lease("", Lease.of(self._trial(number)).change + 1, time.time()))
            self.storage.set_trial_state_values(self._id(number), state=TrialState.WAITING)

    def reclaim(self) -> list[int]:
        """Give back the trials of dead owners; their numbers."""
        return [trial.number for trial in self._running() if self._is_dead(trial) and self._claim(trial)]

    def _running(self) -> Sequence[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))

    def _is_dead(self, trial: FrozenTrial) -> bool:
        lease = Lease.of(trial)
        if not lease.owner:  # its owner died between asking and taking it, or is about to take it
            return self._is_old("trial", trial.number * 1000 + lease.change)
        return lease.owner != self.me and (is_gone(lease.owner) or time.time() - lease.renewed > self.seconds)

    def _is_old(self, what: str, key: int) -> bool:
        """Whether this process has known it for longer than a lease holds."""
        return time.monotonic() - self.unowned.setdefault((what, key), time.monotonic()) > self.seconds

    def _claim(self, trial: FrozenTrial) -> bool:
        """Give a trial back, unless another process does. A study's name can be made once: that is the claim."""
        lease, number = Lease.of(trial), trial.number
        claim = f"{self.study.study_name}/taken from the dead/{number}.{lease.change}"
        try:
            optuna.create_study(study_name=claim, storage=self.storage)
        except DuplicatedStudyError:
            if self._is_old(claim, 0):  # who claimed it died in the middle
                self._forget(claim)
            return False
        try:
            now = self._trial(number)
            if now.state != TrialState.RUNNING or Lease.of(now) != lease:
                return False
            self._write(number, Lease("", lease.change + 1, time.time()))
            self.storage.set_trial_state_values(self._id(number), state=TrialState.WAITING)
            return True
        finally:
            self._forget(claim)

    def _forget(self, claim: str) -> None:
        try:
            optuna.delete_study(study_name=claim, storage=self.storage)
        except KeyError:
            return

    def _write(self, number: int, lease: Lease) -> None:
        self.storage.set_trial_user_attr(self._id(number), KEY, lease.as_json())

    def _trial(self, number: int) -> FrozenTrial:
        return self.storage.get_trial(self._id(number))

    def _id(self, number: int) -> int:
        return self.storage.get_trial_id_from_study_id_trial_number(self.study_id, number)


def identity() -> str:
    """This process, told from every other one, also from one that gets its number later."""
    return f"{_machine()} {os.getpid()} {_birth(os.getpid())}"


def is_gone(owner: str) -> bool:
    """Whether a process of this machine lives no more; nothing is known of those of others."""
    machine, _, process = owner.rpartition(" ")[0].rpartition(" ")
    birth = owner.rpartition(" ")[2]
    return machine == _machine() and _birth(int(process)) != birth


def _machine() -> str:
    """The host since its last start, and in it the container."""
    boot, space = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    parts = [boot.read_text().strip()[:8]] if boot.exists() else []
    parts += [str(space.readlink()).strip("pid:[]")] if space.is_symlink() else []
    return "-".join([socket.gethostname(), *parts])


def _birth(process: int) -> str:
    """When a process began, in the kernel's words; "0" where it does not say so, empty for none that lives."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    stat = Path(f"/proc/{process}/stat")
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return "0" if not Path("/proc/self/stat").exists() else ""
    return "" if fields[0] == "Z" else fields[19]
