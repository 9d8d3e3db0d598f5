"""Runs that were made before, in any sweep or experiment, and answer for one that is asked now."""

import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labkit.spec import ValidationError
from labkit.study.own import own_files
from labkit.study.pace import SAME
from labkit.study.plan import Job
from labkit.tracking import source
from labkit.tracking.record import FINISHED, Run
from labkit.train.device import versions
from labkit.train.run import RunSpec, Runtime

Record = Mapping[str, Any]


def answering(job: Job, runs: Path, identity: str, sources: Record, takes: Callable[[Record], bool]) -> Run | None:
    """A finished run of the same spec, data and sources, whose record is one to take; None if there is none.

    Without the data's identity ("") it is taken to be the same. `sources` are the user's, each file's digest by its
    place: a run with components of the user's own answers only where none of them has changed.
    """
    for path in sorted(runs.glob(f"*/*/*/seed*-{job.fingerprint}")):
        run = Run(path)
        if (
            path != job.run.path
            and not run.fault
            and takes(run.record())
            and _answers(run, job.spec, identity, sources)
        ):
            return run
    return None


def is_alike(record: Record, runtime: Runtime) -> bool:
    """Whether a run was made where and as one would be now, so that the two would be equal bit for bit."""
    told, asked = {"data_parallel": 1, **record.get("runtime", {})}, runtime.as_json()
    here = record.get("host") == socket.gethostname() and (record.get("device") == "cpu") == (runtime.device == "cpu")
    moved = len({session["mode"] for session in record.get("sessions", [])}) != 1
    return here and not moved and record.get("versions") == versions() and all(told.get(x) == asked[x] for x in SAME)


def _answers(run: Run, spec: RunSpec, identity: str, sources: Record) -> bool:
    record = run.record()
    data = record.get("data", {})
    if record.get("status") not in FINISHED or identity not in ("", data.get("identity", data.get("hash"))):
        return False
    if record.get("labkit_sources") != source.own():
        return False
    try:
        same = RunSpec.from_json(run.spec()) == spec
    except ValidationError:
        return False
    return same and _is_of(sources, record, own_files(spec))


def _is_of(sources: Record, record: Record, files: Sequence[Path]) -> bool:
    """Whether the user's components come from the sources that a record has, and what both know of is the same."""
    kept = record.get("sources", {})
    known = all(any(str(file).endswith(place) for place in kept) for file in files)
    return not files or (known and all(kept[place] == sources[place] for place in kept.keys() & sources.keys()))
