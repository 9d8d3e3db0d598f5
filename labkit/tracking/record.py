"""Run folders: the record on disk, which is the truth that every view is filled from. The one module that knows them.

    runs/<experiment>/<edition>/experiment.json
    runs/<experiment>/<edition>/<variant>/seed<k>-<fingerprint>/
        spec.json  source/  record.json  metrics.jsonl  documents.npz  checkpoints/  console.log
        console-<rank>.log      of the other processes, where several share the batch

JSON files are replaced atomically; metrics are append-only, and of each (key, step) the last line counts. A finished
run that another one takes the place of moves to ``<variant>/superseded/``. A file that holds anything else than what is
written here is damaged, which is never taken for a file that is not there.
"""

import fcntl
import json
import math
import os
import shutil
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from labkit.spec import Mistake
from labkit.tracking.atomic import Damaged, link, read_json, write_bytes, write_json
from labkit.tracking.schema import Description, Member, Part, Planned, Record, fault

VERSION = 1
FINISHED = frozenset({"done", "diverged"})
OVER = FINISHED | {"pruned"}
"""Statuses after which nothing more is written."""
TRIES, PAUSE = 20, 0.01
"""How often, and after how many seconds, a lock is tried again."""


class Busy(RuntimeError):
    """Another living process owns the run."""


class Newer(Mistake):
    """A file was written by a labkit that knows more."""


def _read(path: Path, schema: type[Part], remedy: str) -> dict[str, Any]:
    """The same of a file of a known format; `remedy` ends the message of Damaged."""
    try:
        value = read_json(path)
    except Damaged as error:
        raise Damaged(f"{error}. {remedy}") from None
    if isinstance(version := value.get("version"), int) and version > VERSION:
        raise Newer(f"{path} is of format {version}, and this labkit reads {VERSION}. Upgrade labkit.")
    if (value or path.exists()) and (wrong := fault(value, schema)):
        raise Damaged(f"{path} is damaged: {wrong}. {remedy}")
    return value


@dataclass(frozen=True)
class Run:
    """One run's folder."""

    path: Path

    def create(self, spec: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Plan the run: its spec and the facts known before it starts. A folder that has a record keeps it."""
        if self.record():
            return
        write_json(self.path / "spec.json", {"version": VERSION, "spec": spec})
        write_json(self.path / "record.json", {"version": VERSION, "status": "planned", "step": 0, **facts})

    def adopt(self, other: "Run", facts: Mapping[str, Any]) -> None:
        """Plan the run as already made: with all that another of the same spec left, and its own facts."""
        if self.record():
            return
        self.path.mkdir(parents=True, exist_ok=True)
        for name in ("source", "checkpoints"):
            if (tree := other.path / name).is_dir():
                shutil.copytree(tree, self.path / name, copy_function=link, dirs_exist_ok=True)
        if other.documents.exists():
            link(other.documents, self.documents)
        write_json(self.path / "spec.json", {"version": VERSION, "spec": other.spec()})
        if (curves := other.path / "metrics.jsonl").exists():
            write_bytes(self.path / "metrics.jsonl", curves.read_bytes())
        write_json(self.path / "record.json", {**other.record(), **facts, "answered_from": str(other.path)})

    def spec(self) -> dict[str, Any]:
        """What was planned; empty where nothing was. Raises Damaged."""
        planned = _read(self.path / "spec.json", Planned, self._remedy)
        if not planned and (self.path / "record.json").exists():
            raise Damaged(f"{self.path / 'spec.json'} is missing. {self._remedy}")
        return planned.get("spec", {})

    def record(self) -> dict[str, Any]:
        """What became of it; empty where nothing was planned. Raises Damaged."""
        return _read(self.path / "record.json", Record, self._remedy)

    @property
    def fault(self) -> str:
        """Why the run can be no part of its edition; empty where it can."""
        try:
            _read(self.path / "record.json", Member, self._remedy)
            self.spec()
        except Mistake as error:
            return str(error)
        return ""

    @property
    def _remedy(self) -> str:
        return f"Remove the folder {self.path} to train it again."

    def update(self, **fields: Any) -> dict[str, Any]:
        """Set fields of the record; only the run's owner does so."""
        record = {**self.record(), **fields}
        write_json(self.path / "record.json", record)
        return record

    @property
    def source(self) -> Path:
        return self.path / "source"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def documents(self) -> Path:
        return self.path / "documents.npz"

    @property
    def console_log(self) -> Path:
        return self.path / "console.log"

    def console_of(self, rank: int) -> Path:
        """What another process prints that shares the batch."""
        return self.path / f"console-{rank}.log"

    @property
    def other_consoles(self) -> list[Path]:
        """Those that something was printed into."""
        return [path for path in sorted(self.path.glob("console-*.log")) if path.stat().st_size]

    def append(self, step: int, values: Mapping[str, float]) -> None:
        """Add a line of metrics; what is not finite is written as null."""
        kept = {key: value if math.isfinite(value) else None for key, value in values.items()}
        line = json.dumps({"step": step, "time": round(time.time(), 3), **kept}).encode() + b"\n"
        with (self.path / "metrics.jsonl").open("ab+") as file:
            if file.tell() and _last_byte(file.fileno(), file.tell()) != b"\n":
                line = self._mend(file) + line
            file.write(line)

    def _mend(self, file: BinaryIO) -> bytes:
        """Cut off the half line that a killed process left; of a whole one, give the end that it lacks."""
        data = (self.path / "metrics.jsonl").read_bytes()
        whole = _whole(data)
        file.truncate(len(whole))
        return b"" if whole.endswith(b"\n") or not whole else b"\n"

    @property
    def written(self) -> int:
        """Bytes of metrics that are there; they grow."""
        file = self.path / "metrics.jsonl"
        return file.stat().st_size if file.is_file() else 0

    def lines(self, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
        """The whole lines of metrics from a byte offset on, and the offset to go on from; other lines are skipped."""
        whole = _whole(self._data(offset))
        return [line for line in map(_parsed, whole.split(b"\n")) if line], offset + len(whole)

    def _data(self, offset: int = 0) -> bytes:
        try:
            with (self.path / "metrics.jsonl").open("rb") as file:
                file.seek(offset)
                return file.read()
        except (FileNotFoundError, IsADirectoryError):
            return b""

    def metrics(self) -> dict[str, list[tuple[int, float]]]:
        """Each key's curve by ascending step; null becomes NaN."""
        return self.curves()[0]

    def curves(self) -> tuple[dict[str, list[tuple[int, float]]], str]:
        """The same, and where lines are left out since they hold no metrics, and how many; empty where none is.

        Half a line at the end of a run that is not over is none of them: its process died while it wrote, and when the
        run goes on it is cut off.
        """
        data = self._data()
        given = (data if self.record().get("status") in OVER else _whole(data)).split(b"\n")
        lines = [line for line in map(_parsed, given) if line]
        lost = sum(1 for line in given if line.strip()) - len(lines)
        what = "1 line holds no metrics and is" if lost == 1 else f"{lost} lines hold no metrics and are"
        return _curves(lines), f"{self.path / 'metrics.jsonl'}: {what} left out" if lost else ""

    @contextmanager
    def lock(self) -> Generator[None]:
        """Own the run; the lock dies with its process. Raises Busy if another living process has it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("a") as file:
            if not _locked(file.fileno()):
                raise Busy(f"{self.path} is being trained by another process")
            yield

    @property
    def owned(self) -> bool:
        """Whether a living process owns the run."""
        try:
            with (self.path / "lock").open("r") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def clear(self) -> None:
        """Make room for another run in this folder; a finished one moves to ``superseded/``."""
        finished = self.record().get("status") in FINISHED
        aside = self.path.parent / "superseded" / f"{self.path.name}-{time.time_ns()}"
        if finished:
            aside.mkdir(parents=True)
        record = self.path / "record.json"
        for path in sorted(self.path.iterdir(), key=lambda path: path != record):  # the record first: then it is no run
            if path.name in ("lock", "mlflow.json"):
                continue
            if finished:
                path.rename(aside / path.name)
            else:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def request_stop(self, reason: str = "") -> None:
        """Ask the run's owner to checkpoint and leave; with the reason "pruned", to end the run there."""
        write_bytes(self.path / "stop", reason.encode())

    @property
    def stop_requested(self) -> bool:
        return (self.path / "stop").exists()

    @property
    def stop_reason(self) -> str:
        """Why it was asked to leave; empty where nobody asked, or nobody said."""
        try:
            return (self.path / "stop").read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def clear_stop(self) -> None:
        (self.path / "stop").unlink(missing_ok=True)


@dataclass(frozen=True)
class Edition:
    """One experiment on one baseline: the folder that holds its description and its runs."""

    path: Path

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.path.parent.name

    @property
    def edition(self) -> str:
        return self.path.name

    @property
    def title(self) -> str:
        """``rope_theta`` as the file stands, ``rope_theta@small`` on another baseline."""
        return self.name if self.edition == "main" else f"{self.name}@{self.edition}"

    def describe(self, description: Mapping[str, Any]) -> None:
        """Write the description, if it is another one; what is made of it is then no longer true."""
        old = self._described()
        value = {"version": VERSION, **description} | {key: old[key] for key in ("ledger",) if key in old}
        if value != old:
            for made in ("report.html", "board.json"):
                (self.path / made).unlink(missing_ok=True)
            write_json(self.path / "experiment.json", value)

    def enter(self, look: Mapping[str, Any]) -> None:
        """Keep in the description's ledger that verdicts were given at a look; what was said before stays as it was.

        What is made of the records stays true.
        """
        told = self.description()
        ledger = told.get("ledger", [])
        at = [(old["seeds"], old["baseline"]) for old in ledger]
        place = at.index(key) if (key := (look["seeds"], look["baseline"])) in at else len(ledger)
        before = ledger[place] if place < len(ledger) else {}
        said = {name: {**look[name], **before.get(name, {})} for name in ("verdicts", "placebos") if name in look}
        if (entry := {**look, **before, **said}) != before:
            write_json(self.path / "experiment.json", told | {"ledger": [*ledger[:place], entry, *ledger[place + 1 :]]})

    def description(self) -> dict[str, Any]:
        """What was described; empty where nothing was. Raises Damaged."""
        return _read(self.path / "experiment.json", Description, "Run the experiment again to write it.")

    def _described(self) -> dict[str, Any]:
        """The same where a damaged one is about to be replaced."""
        try:
            return self.description()
        except Damaged:
            return {}

    def run(self, variant: str, seed: int, fingerprint: str) -> Run:
        return Run(self.path / variant / f"seed{seed}-{fingerprint}")

    def runs(self) -> list[Run]:
        """Every run folder whose record can be read, in the order of the names."""
        return [run for run in self._recorded() if not run.fault]

    def damaged(self) -> list[str]:
        """Why the other run folders with a record cannot be read."""
        return [fault for run in self._recorded() if (fault := run.fault)]

    def _recorded(self) -> list[Run]:
        return [Run(path.parent) for path in sorted(self.path.glob("*/seed*/record.json"))]


def _locked(descriptor: int) -> bool:
    """Take the lock; somebody who only asks whether it is owned holds it for a moment, and is waited for."""
    for _ in range(TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE)
        else:
            return True
    return False


def _parsed(line: bytes) -> dict[str, Any]:
    """A line of metrics; empty for what is none: a step, a time, and numbers or null."""
    try:
        value = json.loads(line.decode())  # of bytes it would guess the encoding, for a third of its time
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict) or type(value.get("step")) is not int or value.get("time") is None:
        return {}
    return value if value["step"] >= 0 and all(map(_is_figure, value.values())) else {}


def _whole(data: bytes) -> bytes:
    """Metrics up to the end of the last line, which may lack its end but nothing else."""
    end = data.rfind(b"\n") + 1
    return data if _parsed(data[end:]) else data[:end]


def _curves(lines: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    curves: dict[str, dict[int, float]] = {}
    for line in lines:
        for key, value in line.items():
            if key not in ("step", "time"):
                curves.setdefault(key, {})[line["step"]] = math.nan if value is None else value
    return {key: sorted(curve.items()) for key, curve in curves.items()}


def _is_figure(value: Any) -> bool:
    return value is None or type(value) is float or (type(value) is int and abs(value) < 2**63)


def _last_byte(descriptor: int, size: int) -> bytes:
    return os.pread(descriptor, 1, size - 1)


def is_alone(record: Mapping[str, Any]) -> bool:
    """Whether no other run trained beside it on its device, so that its speed is its own."""
    return record.get("side_by_side", 1) == 1


def divergence(record: Mapping[str, Any]) -> str:
    """``at step 51 (a loss or a gradient is not finite)``"""
    why = f" ({record['diverged_by']})" if record.get("diverged_by") else ""
    return f"at step {record.get('diverged_at')}{why}"
