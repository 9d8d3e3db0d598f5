"""Runs that were made before, in any sweep or experiment, and answer for one that is asked now."""

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from labkit.spec import Choice, Spec, ValidationError
from labkit.study.plan import Job
from labkit.tracking import source
from labkit.tracking.record import FINISHED, Run, is_alone
from labkit.train.run import RunSpec


def answering(job: Job, runs: Path, data_hash: str, base: Path, *, alone: bool) -> Run | None:
    """A finished run of the same spec, data and sources, where asked one that trained alone; None if there is none."""
    for path in sorted(runs.glob(f"*/*/*/seed*-{job.fingerprint}")):
        run = Run(path)
        if path == job.run.path or run.fault or (alone and not is_alone(run.record())):
            continue
        if _answers(run, job.spec, data_hash, base):
            return run
    return None


def _answers(run: Run, spec: RunSpec, data_hash: str, base: Path) -> bool:
    record = run.record()
    if record.get("status") not in FINISHED or record.get("data", {}).get("hash") != data_hash:
        return False
    if record.get("labkit_sources") != source.own():
        return False
    try:
        same = RunSpec.from_json(run.spec()) == spec
    except ValidationError:
        return False
    return same and all(_is_recorded(file, record) for file in own_files(spec))


def own_files(spec: Spec) -> set[Path]:
    """The files of the user's own that define components of a spec."""
    return {
        Path(inspect.getfile(type(part))) for part in _parts(spec) if not type(part).__module__.startswith("labkit.")
    }


def _parts(spec: Any) -> Iterator[Choice]:
    if isinstance(spec, Choice):
        yield spec
    if isinstance(spec, Spec):
        for _, value in spec:
            yield from _parts(value)
    elif isinstance(spec, tuple):
        for value in spec:
            yield from _parts(value)


def _is_recorded(file: Path, record: Mapping[str, Any]) -> bool:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return any(str(file).endswith(path) and kept == digest for path, kept in record.get("sources", {}).items())
