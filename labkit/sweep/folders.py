"""The run folders of a sweep: one a trial and seed, described together, so that every view of runs shows them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labkit.data import Store
from labkit.study.answered import answering
from labkit.study.counting import Counted
from labkit.study.names import exact
from labkit.study.plan import Job, Planner, need_of
from labkit.study.preparing import prepare_apart
from labkit.tracking.progress import Progress
from labkit.tracking.record import Edition, is_alone


class Folders:
    """Makes and describes the folders of one edition of a sweep."""

    def __init__(self, planner: Planner, runs: Path, progress: Progress, *, alone: bool) -> None:
        """alone: what answers for a run has to have trained with no other beside it."""
        self.planner, self.runs, self.progress, self.alone = planner, runs, progress, alone
        self.sources = planner.hashes()
        self.stores: dict[str, Store] = {}

    @property
    def edition(self) -> Edition:
        return self.planner.edition

    def jobs(self, counted: Counted, seeds: Sequence[int]) -> list[Job]:
        arm = counted.arm
        return [Job(self.edition.run(arm.name, seed, arm.seeded(seed).fingerprint), counted, seed) for seed in seeds]

    def store(self, counted: Counted) -> Store:
        spec = counted.arm.spec
        key = f"{spec.data.fingerprint} {spec.tokenizer.fingerprint}"
        if key not in self.stores:
            self.stores[key] = prepare_apart(spec, self.planner.loaded.base, self.progress)
        return self.stores[key]

    def plan(self, job: Job, params: Mapping[str, Any], tags: Mapping[str, str]) -> bool:
        """Make a run's folder; whether it needs a worker, for a run that was made before answers for it."""
        store = self.store(job.counted)
        need = need_of(job, store.identity, self.sources)
        if need == "finished":
            return False
        if need == "anew" and not job.run.owned:
            self.planner.empty(job)
        more = {
            "varied": {
                name: value if isinstance(value, str | int | float) else exact(value) for name, value in params.items()
            },
            "tags": dict(tags),
            "described": self.planner.arm(job.counted),
        }
        other = None if job.run.record() else answering(job, self.runs, store.identity, self.sources, self._takes)
        if other is not None:
            job.run.adopt(other, {**self.planner.facts(job, store, other.record().get("sources", {})), **more})
            return False
        self.planner.plan(job, store, more)
        job.run.clear_stop()
        return True

    def _takes(self, record: Mapping[str, Any]) -> bool:
        return not self.alone or is_alone(record)

    def describe(self, counted: Counted, facts: Mapping[str, Any], command: str) -> None:
        """Write experiment.json: the base, and every trial that has a folder."""
        self.planner.describe([counted], command, {"arms": self._arms(counted), **facts})

    def _arms(self, counted: Counted) -> list[dict[str, Any]]:
        """The base first; then the arms as the records have them."""
        arms = {counted.arm.name: {**self.planner.arm(counted), "name": counted.arm.name, "baseline": True}}
        for run in self.edition.runs():
            record = run.record()
            told = record.get("described")
            if told and told["name"] not in arms:
                arms[told["name"]] = {**told, "baseline": False, "varied": record["varied"]}
        return list(arms.values())
