"""A study that asks and is told: what Optuna keeps, leased to whoever works on it, the same however often it stops."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from labkit.search.lease import SECONDS, Leases
from labkit.search.method import Method
from labkit.search.quiet import unwarned
from labkit.search.reseeded import Reseeded
from labkit.search.space import Changes, Space
from labkit.search.storage import close
from labkit.spec import Mistake

State = Literal["done", "pruned", "invalid", "diverged", "failed", "running", "waiting"]
STATES: dict[str, TrialState] = {
    "done": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "invalid": TrialState.PRUNED,
    "diverged": TrialState.FAIL,
    "failed": TrialState.FAIL,
}
"""Optuna's words for ours."""

COUNTED = ("done", "pruned", "diverged", "running", "waiting")
"""The trials that a sweep's number of them is about: an invalid one costs nothing, and a failed one says nothing."""

KEY = "labkit"
"""The attribute of a study that says what it searches."""


@dataclass(frozen=True)
class Asked:
    """A trial that this process has, and what it changes."""

    trial: optuna.Trial
    changes: Changes

    @property
    def number(self) -> int:
        return self.trial.number

    @property
    def params(self) -> dict[str, Any]:
        return self.trial.params


@dataclass(frozen=True)
class Search:
    """What is searched, and how."""

    name: str
    space: Space
    directions: Sequence[Literal["minimize", "maximize"]]
    metrics: Sequence[str]
    method: Method
    points: int = 1
    """Evaluation points of a trial."""
    facts: Mapping[str, Any] | None = None
    """What the study is about, as JSON; one of the same name about something else is refused."""


class Study:
    """One study in a storage, made or gone on with. Raises Mistake where it is about something else."""

    def __init__(self, search: Search, storage: BaseStorage, lease: float = SECONDS) -> None:
        self.search, self.storage, method = search, storage, search.method
        self.sampler = Reseeded(lambda number: method.sampler.build(search.space, method.seed, number))
        with unwarned():
            pruner = method.pruner.build(search.points)
        self.optuna = optuna.create_study(
            study_name=search.name,
            storage=storage,
            sampler=self.sampler,
            pruner=pruner,
            directions=list(search.directions),
            load_if_exists=True,
        )
        self._agree()
        self.leases = Leases(self.optuna, storage, lease)
        self.held: dict[int, float] = {}
        """Trials of this process -> when their leases were renewed."""
        self.looked = 0.0

    def _agree(self) -> None:
        facts = {"space": self.search.space.as_json(), **(self.search.facts or {})}
        found = self.optuna.user_attrs.get(KEY)
        if found is None and self.optuna.get_trials(deepcopy=False):
            found = {}
        if found is None:
            self.optuna.set_user_attr(KEY, facts)
            with unwarned():
                self.optuna.set_metric_names(list(self.search.metrics))
        elif found != facts:
            differs = ", ".join(sorted(key for key in facts if found.get(key) != facts[key]))
            raise Mistake(
                f"the study {self.search.name!r} in this storage is about something else ({differs} differs); "
                "delete it there, or give another --storage"
            )

    @property
    def trials(self) -> list[FrozenTrial]:
        return self.optuna.get_trials(deepcopy=False)

    @property
    def exhausted(self) -> bool:
        """Whether the sampler has nothing more to try."""
        return self.sampler.exhausted

    def ask(self) -> Asked:
        """A trial that was given back, or else a new one."""
        trial = self.optuna.ask()
        self.leases.take(trial.number)
        self.held[trial.number] = time.monotonic()
        return Asked(trial, self.search.space.ask(trial))

    def keep(self) -> list[int]:
        """Renew what this process has, and give back what the dead had; the numbers of the latter. Call it often."""
        now = time.monotonic()
        for number, renewed in list(self.held.items()):
            if now - renewed > self.leases.seconds / 6:
                self.leases.renew(number)
                self.held[number] = now
        if now - self.looked < self.leases.seconds / 12:
            return []
        self.looked = now
        return self.leases.reclaim()

    def report(self, asked: Asked, value: float, point: int) -> bool:
        """Tell a value on the way; whether the trial is to be ended."""
        if point not in self.storage.get_trial(asked.trial._trial_id).intermediate_values:  # pyright: ignore[reportPrivateUsage]
            asked.trial.report(value, point)
        return self.search.method.pruner.may_end(point, self.search.points) and asked.trial.should_prune()

    def tell(
        self, asked: Asked, state: State, values: Sequence[float] = (), facts: Mapping[str, Any] | None = None
    ) -> bool:
        """End a trial; False where it is no longer this process's own."""
        self.held.pop(asked.number, None)
        if not self.leases.holds(asked.number):
            return False
        asked.trial.set_user_attr("state", state)
        for key, value in (facts or {}).items():
            asked.trial.set_user_attr(key, value)
        try:
            self.optuna.tell(asked.trial, list(values) if values else None, STATES[state])
        except (UpdateFinishedTrialError, ValueError):
            if self.storage.get_trial(asked.trial._trial_id).state.is_finished():  # pyright: ignore[reportPrivateUsage]
                return False
            raise
        return True

    def close(self) -> None:
        """Let go of the storage."""
        close(self.storage)

    def give_back(self, asked: Asked) -> None:
        """Let the next one that asks have the trial."""
        self.held.pop(asked.number, None)
        self.leases.give_back(asked.number)


def state_of(trial: FrozenTrial) -> State:
    """What became of a trial, in labkit's words."""
    if trial.state == TrialState.RUNNING:
        return "running"
    if trial.state == TrialState.WAITING:
        return "waiting"
    said = trial.user_attrs.get("state")
    plain = {TrialState.COMPLETE: "done", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}[trial.state]
    return said or plain  # pyright: ignore[reportReturnType]


def counted(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """The trials that count, by their numbers."""
    return [trial for trial in trials if state_of(trial) in COUNTED]
