"""Runs that were made before, in any sweep or experiment, and answer for one that is asked now."""

import hashlib
import inspect
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from labkit.spec import Choice, Spec, ValidationError
from labkit.study.pace import SAME
from labkit.study.plan import Job
from labkit.tracking import source
from labkit.tracking.record import FINISHED, Run
from labkit.train.device import versions
from labkit.train.run import RunSpec, Runtime

Record = Mapping[str, Any]


def answering(job: Job, runs: Path, identity: str, takes: Callable[[Record], bool]) -> Run | None:
    """A finished run of the same spec, data and sources, whose record is one to take; None if there is none.

    Without the data's identity ("") it is taken to be the same.
    """
    for path in sorted(runs.glob(f"*/*/*/seed*-{job.fingerprint}")):
        run = Run(path)
        if path != job.run.path and not run.fault and takes(run.record()) and _answers(run, job.spec, identity):
            return run
    return None


def is_alike(record: Record, runtime: Runtime) -> bool:
    """Whether a run was made where and as one would be now, so that the two would be equal bit for bit."""
    told, asked = {"data_parallel": 1, **record.get("runtime", {})}, runtime.as_json()
    here = record.get("host") == socket.gethostname() and (record.get("device") == "cpu") == (runtime.device == "cpu")
    moved = len({session["mode"] for session in record.get("sessions", [])}) != 1
    return here and not moved and record.get("versions") == versions() and all(told.get(x) == asked[x] for x in SAME)


def _answers(run: Run, spec: RunSpec, identity: str) -> bool:
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
