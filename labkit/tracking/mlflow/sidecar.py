"""What MLflow was told of a run, kept beside its record, so that nobody asks MLflow without need."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from labkit.tracking.atomic import Damaged, read_json, write_json
from labkit.tracking.mlflow import links
from labkit.tracking.mlflow.facts import Facts, Setting
from labkit.tracking.mlflow.place import base, lead
from labkit.tracking.mlflow.store import database, public
from labkit.tracking.mlflow.view import View
from labkit.tracking.record import Edition, Run

NAME = "mlflow.json"
VERSION = 1


@dataclass(frozen=True)
class Sidecar:
    """A note on one run, or on an edition (run_id empty)."""

    uri: str = ""
    experiment_id: str = ""
    run_id: str = ""
    digest: str = ""
    """Of all that is sent apart from the curves."""
    offset: Annotated[int, Field(ge=0)] = 0
    """Bytes of metrics.jsonl that are sent."""
    steps: dict[str, int] = field(default_factory=dict[str, int])
    """The last step sent of each key."""
    start: int | None = None
    """When the run began, which tells it from another one in its folder."""
    origin: dict[str, str] = field(default_factory=dict[str, str])
    """Who started it from which source, as it was when MLflow first heard of the run."""
    board: str = ""
    """Of an edition: the id of the experiment that its board of results is in."""

    @classmethod
    def read(cls, folder: Path) -> "Sidecar":
        """The note in a folder; an empty one where there is none that can be read: it is then written again."""
        try:
            note = read_json(folder / NAME)
            return _NOTE.validate_python(note) if note.get("version") == VERSION else cls()
        except (Damaged, ValidationError):
            return cls()

    def write(self, folder: Path) -> None:
        write_json(folder / NAME, {"version": VERSION, **asdict(self)})


_NOTE = TypeAdapter(Sidecar)


def run_page(run: Run) -> str:
    """The address of a run in MLflow's UI; empty where MLflow was not told of it."""
    note = Sidecar.read(run.path)
    return f"{base(note.uri)}/{links.run(note.experiment_id, note.run_id)}" if note.run_id else ""


def charts_page(edition: Edition) -> str:
    """The address of an edition's charts in MLflow's UI; empty where MLflow was not told of it."""
    note = Sidecar.read(edition.path)
    return f"{base(note.uri)}/{links.charts(note.experiment_id)}" if note.experiment_id else ""


def lead_pages(runs: Path, uri: str, address: str) -> None:
    """Have the pages of the editions that a store shows lead to its UI at an address on this machine."""
    for note in runs.glob(f"*/*/{NAME}"):
        if Sidecar.read(note.parent).uri == public(uri):
            for page in note.parent.glob("*.html"):
                lead(page, address)


def begun(edition: Edition) -> list[Run]:
    """The runs that MLflow is to know: all that have started."""
    return [run for run in edition.runs() if run.record()["status"] != "planned"]


def pending(edition: Edition, uri: str) -> bool:
    """Whether the records say what MLflow was not told; answered without importing MLflow."""
    runs, file = begun(edition), database(uri)
    if not runs or (file and not file.exists()):
        return bool(runs)
    note, setting = Sidecar.read(edition.path), Setting.of(edition)
    if (note.uri, note.digest) != (public(uri), View.of(edition, setting).digest):
        return True
    return any(behind(run, Sidecar.read(run.path), Facts.of(run, run.record(), setting), uri) for run in runs)


def behind(run: Run, note: Sidecar, facts: Facts, uri: str) -> bool:
    """Whether the run has more to tell than the note says was sent."""
    return (note.uri, note.digest) != (public(uri), facts.digest) or bool(run.lines(note.offset)[0])
