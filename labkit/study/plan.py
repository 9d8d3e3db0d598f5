"""Which runs an experiment needs, and which of them are missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from labkit.data import Store
from labkit.faults import closest
from labkit.spec import Mistake, ValidationError
from labkit.study.counting import Counted
from labkit.study.experiment import Experiment
from labkit.study.loading import Loaded
from labkit.study.names import brief, exact
from labkit.study.own import own_files
from labkit.tracking import source
from labkit.tracking.record import FINISHED, Busy, Edition, Run
from labkit.train.run import RunSpec

Need = Literal["finished", "new", "continue", "retry", "anew"]
"""Nothing to do; train; go on from the last checkpoint; the same after a failure; make room and train."""


@dataclass(frozen=True, eq=False)
class Job:
    """One run of the experiment, whatever its folder holds."""

    run: Run
    counted: Counted
    seed: int

    @property
    def name(self) -> str:
        return f"{self.counted.arm.name} · seed {self.seed}"

    @cached_property
    def spec(self) -> RunSpec:
        return self.counted.arm.seeded(self.seed)

    @property
    def fingerprint(self) -> str:
        return self.spec.fingerprint


def jobs_of(arms: Sequence[Counted], seeds: Sequence[int], edition: Edition) -> list[Job]:
    """Seed by seed over all arms, so that what is finished early compares."""
    specs = [(seed, arm, arm.arm.seeded(seed).fingerprint) for seed in seeds for arm in arms]
    return [Job(edition.run(arm.arm.name, seed, fingerprint), arm, seed) for seed, arm, fingerprint in specs]


def chosen(jobs: Sequence[Job], only: Sequence[str]) -> list[Job]:
    """The jobs of the arms named, and of the baseline that they are compared with; all where none is named.

    Raises Mistake for a name that is none.
    """
    known = list(dict.fromkeys(job.counted.arm.name for job in jobs))
    for name in only:
        if name not in known:
            several = name.split(",") if set(name.split(",")) <= set(known) else []
            hint = f" Write {' '.join(f'--only {one}' for one in several)}." if several else closest(name, known)
            raise Mistake(f"--only {brief(name)[1:-1]}: no such variant.{hint}")
    return [job for job in jobs if not only or job.counted.arm.name in (known[0], *only)]


def need_of(job: Job, identity: str, sources: Mapping[str, str]) -> Need:
    """What a run's folder lacks. Other sources make only a run that has nothing to go on from another one.

    Without the data's identity ("") it is taken to be what it was.
    """
    record = job.run.record()
    if not record:
        return "new"
    data = record.get("data", {})
    if _recorded(job.run) != job.spec or identity not in ("", data.get("identity", data.get("hash"))):
        return "anew"
    if record["status"] in FINISHED:
        return "finished"
    begun = record["status"] != "planned" and (record["status"] != "failed" or any(job.run.checkpoints.glob("step-*")))
    if not begun and record.get("sources") != sources:
        return "anew"
    return {"planned": "new", "failed": "retry"}.get(record["status"], "continue")  # pyright: ignore[reportReturnType]


def _recorded(run: Run) -> RunSpec | None:
    """The spec of a run's folder, with today's defaults for fields that it does not know."""
    try:
        return RunSpec.from_json(run.spec())
    except ValidationError:
        return None


@dataclass(frozen=True)
class Planner:
    """Makes the folders that workers read."""

    loaded: Loaded
    edition: Edition
    files: Mapping[str, Path]
    """The user's sources, by their places in a copy."""

    @property
    def experiment(self) -> Experiment:
        return self.loaded.experiment

    def hashes(self) -> dict[str, str]:
        """Each source's SHA-256 by its place, as the records have them."""
        return source.hashes(self.files)

    def changed(self, job: Job) -> list[str]:
        """The files, the user's and labkit's, that are no longer what they were when the run was planned.

        One that the record does not know is none of them, such as a script that only runs the experiment, unless a
        component of the run comes from it; nor is one that nothing imports now, as long as it lies there unchanged.
        """
        record, root = job.run.record(), self.loaded.root
        kept = record.get("sources", {}) | record.get("labkit_sources", {})
        there = {place: root / place for place in record.get("sources", {}) if (root / place).is_file()}
        now = {**source.hashes({**there, **self.files}), **source.own()}
        needed = own_files(job.spec)
        new = {place for place, file in self.files.items() if place not in kept and file in needed}
        return sorted(new | {file for file, digest in kept.items() if now.get(file) != digest})

    def describe(self, arms: Sequence[Counted], command: str, more: Mapping[str, Any] | None = None) -> None:
        """Write experiment.json: what every reader of the runs needs to know of the comparison."""
        self.edition.describe(
            {
                "name": self.edition.name,
                "edition": self.edition.edition,
                "title": self.edition.title,
                "file": _relative(self.loaded.file, self.loaded.root),
                "command": command,
                "question": self.loaded.question,
                "hypothesis": self.loaded.hypothesis,
                "metric": self.experiment.metric,
                "match": self.experiment.match,
                "match_by": self.experiment.match_by,
                "tolerance": self.experiment.tolerance,
                "seeds": list(self.experiment.seed_list),
                "seeds_in_file": self.loaded.seeds_in_file or len(self.experiment.seed_list),
                "looks": list(self.experiment.looks),
                "margin": float(self.experiment.margin),
                "arms": [self.arm(arm) for arm in arms],
                **(more or {}),
            }
        )

    def plan(self, job: Job, store: Store, more: Mapping[str, Any] | None = None) -> None:
        """Make the run's folder, with its spec, its sources and the facts; one that is there stays as it is."""
        if not job.run.record():
            sources = source.capture(job.run.source, self.files)
            job.run.create(job.spec.as_json(), {**self.facts(job, store, sources), **(more or {})})

    def empty(self, job: Job) -> bool:
        """Make room in a run's folder; False, and nothing is touched, while another process trains it."""
        try:
            with job.run.lock():
                job.run.clear()
        except Busy:
            return False
        return True

    def arm(self, counted: Counted) -> dict[str, Any]:
        """What the description says of an arm."""
        arm, base = counted.arm, self.experiment.arms[0]
        return {
            "name": arm.name,
            "label": self.experiment.label(arm),
            "baseline": arm.name == base.name,
            "placebo": arm.shift > 0,
            "refused": self.loaded.refused.get(arm.name, _other_text(arm.spec, base.spec)),
            "tuned": self.loaded.tuned.get(arm.name, ""),
            "fingerprint": arm.fingerprint,
            "changes": {path: list(change) for path, change in base.spec.differences(arm.spec).items()},
            "varied": self._varied(counted),
            "params": counted.costs.params,
            "non_embedding": counted.costs.non_embedding,
            "flops_per_token": counted.costs.flops_per_token,
            "tokens": counted.tokens,
            "steps": counted.steps,
            "active_params": counted.costs.active,
            "matched": counted.match and counted.match.as_json(),
        }

    def facts(self, job: Job, store: Store, sources: Mapping[str, str]) -> dict[str, Any]:
        """What is known of a run before it starts."""
        arm = job.counted.arm
        return {
            "experiment": self.edition.name,
            "edition": self.edition.edition,
            "variant": arm.name,
            "label": self.experiment.label(arm),
            "seed": job.spec.seed.as_json(),
            "seed_index": job.seed,
            "arm": arm.fingerprint,
            "fingerprint": job.fingerprint,
            "steps": job.counted.steps,
            "tokens": job.counted.tokens,
            "tokens_per_step": job.spec.tokens_per_step,
            "params": job.counted.costs.params,
            "flops_per_token": job.counted.costs.flops_per_token,
            "varied": self._varied(job.counted),
            "sources": dict(sources),
            "labkit_sources": source.own(),
            "base": str(self.loaded.base),
            "data": store.facts(),
        }

    def _varied(self, counted: Counted) -> dict[str, Any]:
        values = self.experiment.values(counted.arm)
        return {path: value if isinstance(value, str | int | float) else exact(value) for path, value in values.items()}


def _other_text(spec: RunSpec, base: RunSpec) -> str:
    """Why an arm gets no verdict: what it is scored on is cut from its own text."""
    if spec.data == base.data:
        return ""
    return "scored on another text than the baseline; evaluation.also scores both on one"


def _relative(file: Path, root: Path) -> str:
    return str(file.relative_to(root)) if file.is_relative_to(root) else str(file)
