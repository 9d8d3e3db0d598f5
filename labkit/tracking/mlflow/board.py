"""A board of results: one flat run a row in an MLflow experiment of its own, so that its table answers the question.

It stands beside the experiment that holds the curves, which it never touches. The same board told twice is there once.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from labkit.tracking.atomic import Damaged, read_json, write_json
from labkit.tracking.mlflow import links
from labkit.tracking.mlflow.curves import batches
from labkit.tracking.mlflow.params import clipped, name
from labkit.tracking.mlflow.remote import WORDS, Remote

if TYPE_CHECKING:
    from mlflow.entities import Run as Shown

FILE = "board.json"
VERDICTS = "/verdicts"
"""After an experiment's title, the title of its board."""
LONGEST_NOTE = 19_000
"""Characters above the table, of MLflow's 20,000."""

ROW, DIGEST, FILES = "labkit.row", "labkit.digest", "labkit.files"
"""Tags: whose row a run is, and which figures and files it was made from."""


@dataclass(frozen=True)
class Row:
    """One line of the table: a run without curves."""

    key: str
    """Whose row it is; one a board."""
    name: str
    at: float
    """Unix seconds at which it came to this."""
    words: Mapping[str, str]
    """Columns of text, which MLflow has as parameters."""
    figures: Mapping[str, float]
    """Columns of numbers, which MLflow has as metrics; what is not finite is left out."""
    behind: tuple[str, str]
    """A tag and its value, which the runs with the curves share that the row sums up."""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    note: str = ""
    """Markdown on the run's page."""


@dataclass(frozen=True)
class Board:
    """A table of results, with what to read beside it."""

    title: str
    """Of the MLflow experiment: ``rope_theta/verdicts``."""
    note: str
    """Markdown above the table."""
    columns: Sequence[str]
    """Those that the table opens with: ``params.verdict``, ``metrics.delta``."""
    rows: Sequence[Row]
    files: Sequence[str] = ()
    """Beside the board's own file; they hang on the first row."""

    def write(self, folder: Path) -> None:
        """Keep it among the records, from which MLflow can be filled again."""
        finite = {row.key: {k: v for k, v in row.figures.items() if math.isfinite(v)} for row in self.rows}
        told = asdict(self)
        write_json(folder / FILE, told | {"rows": [row | {"figures": finite[row["key"]]} for row in told["rows"]]})

    @classmethod
    def read(cls, folder: Path) -> "Board | None":
        """The board of a folder; None where there is none that can be read: the next report writes it again."""
        try:
            told = read_json(folder / FILE)
            return _BOARD.validate_python(told) if told else None
        except (Damaged, ValidationError):
            return None

    def digest(self, folder: Path) -> str:
        """Of all that is told, files included."""
        return _hash([asdict(self), files_digest(folder, self.files)])


_BOARD = TypeAdapter(Board)


@dataclass(frozen=True)
class Published:
    """Where a board stands in MLflow."""

    experiment_id: str
    runs: Mapping[str, str]
    """Row's key -> run id."""

    def markdown(self, board: Board) -> str:
        """Markdown that leads to the table and to the report, if there is one."""
        return " · ".join([f"[{board.title}]({links.table(self.experiment_id)})", *self.reports(board)])

    def reports(self, board: Board) -> list[str]:
        """A link to each page among the board's files."""
        first = next(iter(self.runs.values()), "")
        pages = [file for file in board.files if file.endswith(".html")]
        return [f"[The whole report]({links.artifact(self.experiment_id, first, page)})" for page in pages]


def publish(board: Board, folder: Path, uri: str, back: str) -> Published:
    """Have the board's experiment show its rows and no others of labkit's; `folder` holds its files.

    A row that is there as it is stays the same run; one that says something else is made anew, for MLflow's parameters
    never change. `back` is the id of the experiment with the curves, which the notes lead back to. Raises Mistake
    without a store.
    """
    remote = Remote(uri, board.title)
    there = _there(remote, {row.key for row in board.rows})
    runs = {row.key: _put(remote, row, there.get(row.key), back) for row in board.rows}
    published = Published(remote.experiment_id, runs)
    if board.rows:
        _hang(remote, next(iter(runs.values())), board, folder)
    remote.annotate(_tags(board, back, published))
    return published


def _there(remote: Remote, wanted: set[str]) -> "dict[str, Shown]":
    """The rows that MLflow has, by key; those that nobody wants go, and so do second ones, left by a killed process."""
    kept: dict[str, Shown] = {}
    for run in remote.runs():
        key = run.data.tags.get(ROW)
        if key in wanted and key not in kept:
            kept[key] = run
        elif key is not None:
            remote.client.delete_run(run.info.run_id)
    return kept


def _put(remote: Remote, row: Row, there: "Shown | None", back: str) -> str:
    """The id of the run that shows a row."""
    digest = _hash([asdict(row), back])
    if there is not None:
        if there.data.tags.get(DIGEST) == digest:
            return there.info.run_id
        remote.client.delete_run(there.info.run_id)
    moment, link = round(1000 * row.at), links.runs_of(back, *row.behind)
    tags = {**row.tags, ROW: row.key, "mlflow.note.content": f"{row.note}\n\n[Its runs]({link})".strip()}
    run_id = remote.client.create_run(remote.experiment_id, moment, tags, row.name).info.run_id
    _log(remote, run_id, row, moment)
    remote.client.set_terminated(run_id, "FINISHED", moment)
    remote.client.set_tag(run_id, DIGEST, digest)  # last: a half-told row is told again
    return run_id


def _log(remote: Remote, run_id: str, row: Row, moment: int) -> None:
    from mlflow.entities import Metric, Param

    params = [Param(name(key), clipped(value)) for key, value in row.words.items()]
    metrics = [Metric(name(key), value, moment, 0) for key, value in row.figures.items() if math.isfinite(value)]
    for batch in batches(params, WORDS):
        remote.client.log_batch(run_id, params=batch)
    remote.client.log_batch(run_id, metrics=metrics)


def _hang(remote: Remote, run_id: str, board: Board, folder: Path) -> None:
    """The board's files that are there on its first row, where they are others than those that hang there."""
    digest = files_digest(folder, board.files)
    if remote.client.get_run(run_id).data.tags.get(FILES) != digest:
        for file in (file for file in board.files if (folder / file).exists()):
            parent = str(Path(file).parent)
            remote.client.log_artifact(run_id, str(folder / file), None if parent == "." else parent)
        remote.client.set_tag(run_id, FILES, digest)


def _tags(board: Board, back: str, published: Published) -> dict[str, str]:
    """The ways first: of the note, MLflow shows one line until it is unfolded, and the rows' names say the verdicts."""
    table = f"[The table with its columns]({links.table(published.experiment_id)})"
    ways = [table, f"[The curves]({links.charts(back)})", *published.reports(board)]
    return {
        "mlflow.note.content": "\n\n".join([" · ".join(ways), clipped(board.note, LONGEST_NOTE)]).strip(),
        "mlflow.experimentKind": "custom_model_development",
        **links.shared(json.dumps(_state(board))),
    }


def _state(board: Board) -> dict[str, Any]:
    """The UI's own state: every row, the columns that matter."""
    columns = [f"{kind}.`{key}`" for kind, _, key in (column.partition(".") for column in board.columns)]
    return {
        "runsHiddenMode": "SHOW_ALL",
        "selectedColumns": columns,
        "orderByKey": "attributes.start_time",
        "orderByAsc": True,
    }


def files_digest(folder: Path, files: Sequence[str]) -> str:
    """Of the contents; a file that is not there counts as empty."""
    return _hash([[file, _content(folder / file)] for file in files])


def _content(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
