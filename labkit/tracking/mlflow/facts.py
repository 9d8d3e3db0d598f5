"""What MLflow is to know of a run apart from its curves, computed from the records alone."""

import hashlib
import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from labkit.tracking.mlflow.colors import group_color, groups
from labkit.tracking.mlflow.curves import Points, finals, milliseconds
from labkit.tracking.mlflow.params import Varied, clipped, flat, name, text
from labkit.tracking.record import Edition, Run

STATUS = {"done": "FINISHED", "diverged": "FINISHED", "failed": "FAILED", "running": "RUNNING"}
"""MLflow's words for ours; whatever else a run has come to is KILLED."""


@dataclass(frozen=True)
class Setting:
    """What an edition says of all its runs: its title, what varies, and which arms it still has."""

    title: str
    varied: Varied
    arms: dict[str, dict[str, str]]
    """Fingerprint of an arm -> the tags that group and colour its runs."""
    grouping: str
    """The tag that runs are grouped by."""

    @classmethod
    def of(cls, edition: Edition) -> Self:
        description = edition.description()
        arms = description.get("arms", [])
        names = [arm["name"] for arm in arms]
        grouping, values = groups(names)
        tags = [
            {"variant": name, grouping: value, "mlflow.runColor": group_color(grouping, value)}
            for name, value in zip(names, values, strict=True)
        ]
        fingerprints = [arm["fingerprint"] for arm in arms]
        return cls(edition.title, Varied.of(description), dict(zip(fingerprints, tags, strict=True)), grouping)

    def group(self, run: Run, record: Mapping[str, Any]) -> dict[str, str]:
        """The grouping tags of a run; an arm that the experiment no longer has stands apart from its namesake."""
        name, arm = run.path.parent.name, str(record.get("arm"))
        earlier = f"{name} (earlier {arm[:6]})"
        return self.arms.get(arm, {"variant": earlier, self.grouping: earlier})


@dataclass(frozen=True)
class Facts:
    """One run as MLflow shows it."""

    name: str
    status: str
    start: int | None
    end: int | None
    tags: dict[str, str]
    params: dict[str, str]
    dataset: dict[str, str]
    ending: dict[str, Any]

    @classmethod
    def of(cls, run: Run, record: Mapping[str, Any], setting: Setting) -> Self:
        status = record["status"]
        if status == "running" and not run.owned:
            status = "interrupted"
        return cls(
            name=f"{record.get('label') or run.path.parent.name} seed {record['seed_index']}",
            status=STATUS.get(status, "KILLED"),
            start=milliseconds(record.get("started")),
            end=milliseconds(record.get("ended")),
            tags=dict(_tags(run, record, setting, status)),
            params=_params(run.spec(), record, setting.varied),
            dataset=_dataset(record.get("data") or {}),
            ending={key: record[key] for key in ("final", "by_position") if record.get(key)},
        )

    @property
    def finals(self) -> Points:
        """The points that stand for the results."""
        return finals(self.ending, self.end or self.start or 0)

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


def address(run: Run) -> str:
    """Whose record a run in MLflow shows, unique on a server that many people share."""
    return f"{socket.gethostname()}:{run.path.absolute()}"


def _tags(run: Run, record: Mapping[str, Any], setting: Setting, status: str) -> Iterator[tuple[str, str]]:
    yield from setting.group(run, record).items()
    yield "seed", str(record["seed_index"])
    yield "fingerprint", record["fingerprint"]
    yield "status", status
    yield "labkit.edition", setting.title
    yield "labkit.record", address(run)
    yield from (record.get("tags") or {}).items()
    for key in ("device", "mode", "kernels", "precision"):
        if record.get(key):
            yield key, str(record[key])
    if processes := _processes(record):
        yield "data_parallel", processes
    for library, version in (record.get("versions") or {}).items():
        if version is not None:
            yield f"version.{library}", str(version)
    if status == "diverged":
        yield "diverged", "true"
        yield "diverged_at", str(record.get("diverged_at"))
    if record.get("error"):
        yield "error", clipped(str(record["error"]))


def _processes(record: Mapping[str, Any]) -> str:
    """How many processes shared each batch, where it was not one: ``2``, or ``2, 1`` if a run went on with fewer."""
    asked = [session.get("runtime", {}).get("data_parallel", 1) for session in record.get("sessions", [])]
    return ", ".join(map(str, dict.fromkeys(asked))) if any(count != 1 for count in asked) else ""


def _params(spec: Mapping[str, Any], record: Mapping[str, Any], varied: Varied) -> dict[str, str]:
    values = {**dict(varied.params(record.get("varied") or {})), "seed": str(record["seed_index"])}
    values |= {path: text(value) for path, value in flat(spec)}
    return {name(key): value for key, value in values.items()}


def _dataset(data: Mapping[str, Any]) -> dict[str, str]:
    """The token store as MLflow's dataset entity has it."""
    if not {"corpus", "tokenizer", "hash", "store"} <= data.keys():
        return {}
    counts = {key: value for key, value in data.items() if key.endswith(("_tokens", "_bytes"))}
    return {
        "name": clipped(f"{data['corpus']} | {data['tokenizer']}"),
        "digest": str(data["hash"])[:36],
        "source_type": "local",
        "source": json.dumps({"uri": str(data["store"])}),
        "profile": json.dumps(counts),
    }
