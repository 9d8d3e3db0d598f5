"""What the files of a run folder hold, as far as readers rely on it; whatever else is in them stays as it is."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveInt, ValidationError

Status = Literal["planned", "running", "paused", "done", "diverged", "pruned", "stopped", "failed"]


class Part(BaseModel):
    """An object in a file; nothing is taken for what it is not written as."""

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="allow")


class Planned(Part):
    """spec.json"""

    version: Literal[1]
    spec: dict[str, Any]


class Data(Part):
    hash: str = ""
    corpus: str = ""
    tokenizer: str = ""
    store: str = ""


class Positions(Part):
    edges: list[float] = []
    loss: list[float | None] = []
    within: bool = False


class Beyond(Part):
    edges: list[float] = []
    loss: dict[str, list[float | None]] = {}


class Record(Part):
    """record.json"""

    version: Literal[1]
    status: Status
    step: NonNegativeInt
    label: str | None = None
    steps: PositiveInt = 1
    tokens_per_step: PositiveInt = 1
    base: str = ""
    varied: dict[str, Any] = {}
    sources: dict[str, str] = {}
    labkit_sources: dict[str, str] = {}
    data: Data = Data()
    versions: dict[str, str | None] = {}
    runtime: dict[str, Any] = {}
    sessions: list[dict[str, Any]] = []
    notes: list[str] = []
    side_by_side: PositiveInt = 1
    started: float | None = None
    ended: float | None = None
    seconds: float | None = None
    epochs: float | None = None
    diverged_at: int | None = None
    diverged_by: str = ""
    error: str | None = None
    final: dict[str, float | None] = {}
    tags: dict[str, str] = {}
    by_position: Positions = Positions()
    beyond: Beyond = Beyond()


class Member(Record):
    """record.json of a run that belongs to an edition"""

    variant: str
    arm: str
    fingerprint: str
    seed_index: NonNegativeInt


class Written(Part):
    residual_percent: float


class Matched(Part):
    on: str
    path: str
    before: int
    after: int
    residual_percent: float
    residual_nats: float
    law: str
    written: Written


class Arm(Part):
    name: str
    label: str
    baseline: bool
    fingerprint: str
    changes: dict[str, Annotated[list[str], Field(min_length=2, max_length=2)]]
    varied: dict[str, Any]
    params: PositiveInt
    non_embedding: PositiveInt
    flops_per_token: float
    tokens: PositiveInt
    steps: PositiveInt
    matched: Matched | None = None
    placebo: bool = False
    refused: str = ""
    tuned: str = ""


class Look(Part):
    """Verdicts that were given"""

    seeds: PositiveInt
    baseline: str
    margin: float
    verdicts: dict[str, str]
    placebos: dict[str, bool]


class Description(Part):
    """experiment.json"""

    version: Literal[1]
    file: str
    command: str
    question: str
    hypothesis: str
    metric: str
    match: str
    seeds: list[int]
    looks: list[PositiveInt] = []
    margin: NonNegativeFloat = 0.005
    ledger: list[Look] = []
    arms: Annotated[list[Arm], Field(min_length=1)]


def fault(value: Any, schema: type[Part]) -> str:
    """What is wrong with a file's content, in a few words; empty where nothing is."""
    try:
        schema.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    return ""
