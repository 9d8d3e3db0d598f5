"""Telling MLflow what the records say and it does not know yet."""

import fcntl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.tracking.mlflow.board import Board, publish
from labkit.tracking.mlflow.curves import Points, agree, contradicted, extends, last_steps, latest, points
from labkit.tracking.mlflow.facts import Facts, Setting, address
from labkit.tracking.mlflow.origin import origin
from labkit.tracking.mlflow.remote import Remote
from labkit.tracking.mlflow.sidecar import Sidecar, begun, behind
from labkit.tracking.mlflow.store import on_stderr, public
from labkit.tracking.mlflow.view import View
from labkit.tracking.record import Edition, Run

if TYPE_CHECKING:
    from mlflow.entities import Run as Shown


def sync(edition: Edition, uri: str, say: Callable[[str], None] = on_stderr) -> int:
    """Bring MLflow up to the records, whatever was lost there; the number of runs that had something to tell.

    A run whose record cannot be read is left out, and so are lines of metrics that hold none; `say` gets why. Raises
    Mistake where the store cannot be used.
    """
    for fault in edition.damaged():
        say(f"left out: {fault}")
    for garbled in filter(None, (run.curves()[1] for run in begun(edition))):
        say(garbled)
    return Session(edition, uri).push() if begun(edition) else 0


class Session:
    """An open store, and the notes that are known to be true because this session wrote them."""

    def __init__(self, edition: Edition, uri: str) -> None:
        self.edition, self.uri = edition, uri
        self.remote = Remote(uri, edition.title)
        self.origin = origin(str(edition.description().get("file", edition.name)), *_project(edition))
        self.notes: dict[Path, Sidecar] = {}

    def push(self) -> int:
        """One pass over the edition; the number of runs that had something to tell."""
        with _alone(self.edition):
            runs, setting = begun(self.edition), Setting.of(self.edition)
            doubtful = [run for run in runs if not self._trusts(run.path)]
            shown = self.remote.runs() if doubtful else []
            told = 0
            for run in runs:
                facts = Facts.of(run, run.record(), setting)
                if run in doubtful:
                    told += self._reopen(run, facts, shown)
                elif behind(run, self.notes[run.path], facts, self.uri):
                    told += self._continue(run, facts)
            self._show(setting)
            return told

    def _trusts(self, folder: Path) -> bool:
        return self.notes.get(folder) == Sidecar.read(folder)

    def _continue(self, run: Run, facts: Facts) -> bool:
        """Send what was added to the record since the last pass."""
        note = self.notes[run.path]
        lines, offset = run.lines(note.offset)
        news = points(lines) | (facts.finals if note.digest != facts.digest else {})
        if not extends(news, note.steps):  # a resumed run goes over steps again
            return self._reopen(run, facts, self.remote.runs())
        return self._tell(run, note, facts, news, offset)

    def _reopen(self, run: Run, facts: Facts, shown: "list[Shown]") -> bool:
        """Find the run in MLflow and send what it lacks; one that is gone or contradicts the record is made anew."""
        note = Sidecar.read(run.path)
        lines, offset = run.lines()
        wanted = points(lines) | facts.finals
        found = _find(run, note, shown)
        told = found is not None and (note.run_id, note.offset) == (found.info.run_id, offset)
        missing = self._missing(found, facts, wanted, told) if found else None
        if found and missing is not None:
            known = note.digest if found.info.run_id == note.run_id and _tells(found, facts) else ""
            note = replace(note, run_id=found.info.run_id, digest=known)
        else:
            note, missing = self._create(run, note, facts), wanted
        return self._tell(run, replace(note, steps=last_steps(wanted)), facts, missing, offset)

    def _missing(self, found: "Shown", facts: Facts, wanted: Points, told: bool) -> Points | None:
        """The points that the run in MLflow lacks; None, and the run deleted, where it is another than the record's.

        Where the note says that it was `told` everything, each curve's last value is enough to believe it.
        """
        same = facts.start in (None, found.info.start_time)
        if same and told and agree(latest(wanted), found.data.metrics):
            return {}
        have = self.remote.points(found.info.run_id)
        if not same or contradicted(wanted, have):
            self.remote.client.delete_run(found.info.run_id)
            return None
        return {place: point for place, point in wanted.items() if place not in have}

    def _create(self, run: Run, note: Sidecar, facts: Facts) -> Sidecar:
        origin = note.origin if note.origin and note.start == facts.start else self.origin
        run_id = self.remote.create(facts, origin)
        fresh = Sidecar(experiment_id=self.remote.experiment_id, run_id=run_id, start=facts.start, origin=origin)
        fresh.write(run.path)
        return fresh

    def _tell(self, run: Run, note: Sidecar, facts: Facts, news: Points, offset: int) -> bool:
        changed = note.digest != facts.digest
        self.remote.send(note.run_id, news)
        if changed:
            self.remote.describe(note.run_id, facts, run.path / "spec.json")
        steps = note.steps | last_steps(news)
        self._write(run.path, replace(note, digest=facts.digest, offset=offset, steps=steps))
        return changed or bool(news)

    def _write(self, folder: Path, note: Sidecar) -> None:
        note = replace(note, uri=public(self.uri), experiment_id=self.remote.experiment_id)
        if note != Sidecar.read(folder):
            note.write(folder)
        self.notes[folder] = note

    def _show(self, setting: Setting) -> None:
        """Set the experiment's note and charts and the board beside it, where they changed."""
        view, note, board = (
            View.of(self.edition, setting),
            Sidecar.read(self.edition.path),
            Board.read(self.edition.path),
        )
        shown = note.digest == view.digest and bool(note.board) == bool(board)
        if self._trusts(self.edition.path) and shown:
            return
        links, there = "", ""
        if board:
            published = publish(board, self.edition.path, self.uri, self.remote.experiment_id)
            links, there = published.markdown(board), published.experiment_id
        self.remote.annotate(view.tags(links))
        self._write(self.edition.path, replace(note, digest=view.digest, board=there))


def _find(run: Run, note: Sidecar, shown: "list[Shown]") -> "Shown | None":
    """The run in MLflow by its id, which moves with the folder; else by its folder, for a note that was lost."""
    by_id = {found.info.run_id: found for found in shown}
    by_folder = {found.data.tags.get("labkit.record"): found for found in shown}
    return by_id.get(note.run_id) or by_folder.get(address(run))


def _tells(found: "Shown", facts: Facts) -> bool:
    """Whether MLflow has the run's status and tags already."""
    return found.info.status == facts.status and facts.tags.items() <= found.data.tags.items()


@contextmanager
def _alone(edition: Edition) -> Generator[None]:
    """One process at a time tells MLflow of an edition."""
    with (edition.path / "mlflow.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _project(edition: Edition) -> tuple[Path, list[str]]:
    """The folder of the experiment's project, whose repository its source comes from, and the sources' paths in it."""
    records = [run.record() for run in edition.runs()]
    bases = (Path(record["base"]) for record in records if record.get("base"))
    base = next((base for base in bases if base.is_dir()), edition.path)
    below = Path(edition.description().get("file", "")).parent.parts
    root = Path(*base.parts[: -len(below)]) if below and base.parts[-len(below) :] == below else base
    return root, sorted({source for record in records for source in record.get("sources", {})})
