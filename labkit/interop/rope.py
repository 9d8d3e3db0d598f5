"""Rotary positions in a config: transformers 5 has ``rope_parameters``; before, ``rope_theta`` and ``rope_scaling``."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labkit.components.position import Rope
from labkit.components.rope_scaling import LinearScaling, Llama3Scaling, RopeScaling, YarnScaling
from labkit.interop.clauses import Clause, Config, Layers, Paths, positive, whole
from labkit.spec import Mistake

ORIGINAL = "original_max_position_embeddings"
KEYS = {
    "default": {},
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "low_freq_factor": "low_frequency",
        "high_freq_factor": "high_frequency",
        ORIGINAL: "original",
    },
    "yarn": {
        "factor": "factor",
        "beta_fast": "beta_fast",
        "beta_slow": "beta_slow",
        "truncate": "truncate",
        "attention_factor": "attention_factor",
        ORIGINAL: "original",
        "mscale": "",
        "mscale_all_dim": "",
    },
}
"""For each rope_type, its keys and the fields of a RopeScaling; YaRN's mscales make up its attention factor."""
NEEDED = {"linear": ("factor",), "llama3": ("factor", "low_freq_factor", "high_freq_factor"), "yarn": ("factor",)}
"""For each, the keys that transformers does not load a config without."""
KINDS: dict[type[RopeScaling], str] = {LinearScaling: "linear", Llama3Scaling: "llama3", YarnScaling: "yarn"}


@dataclass(frozen=True)
class Rotation(Clause):
    """Rope of the half layout."""

    theta: str = "rope_theta"
    """The name that older configs give the base frequency."""
    share: str = "partial_rotary_factor"
    """The name that older configs give the share of each head that turns."""
    is_partial: bool = False
    """Whether the architecture can turn a part of each head."""
    share_default: float = 1.0

    @property
    def fields(self) -> Mapping[str, Any]:
        return {"rope_parameters": None, "rope_scaling": None, self.theta: 10_000.0, self.share: self.share_default}

    def read(self, config: Config) -> Paths:
        said = config.object("rope_scaling") | config.object("rope_parameters")
        older = said.pop("type", "default")
        kind = said.pop("rope_type", older)
        theta, share = said.pop("rope_theta", config[self.theta]), said.pop("partial_rotary_factor", config[self.share])
        if kind not in list(KEYS):
            raise Mistake(f"config.json: rope_type = {kind!r} has no counterpart in labkit; {', '.join(KEYS)} have")
        if share != 1.0 and not self.is_partial:
            raise Mistake(f"config.json: partial_rotary_factor = {share!r}, but the architecture turns whole heads")
        if unknown := sorted(said.keys() - KEYS[kind].keys()):
            key = unknown[0]
            raise Mistake(f"config.json: rope_parameters.{key} = {said[key]!r} is nothing that {kind} rope knows")
        paths = {"position.kind": "rope", "position.theta": theta, "position.fraction": share}
        return paths | self.scaling(kind, said, config.size("max_position_embeddings"))

    def scaling(self, kind: str, said: dict[str, Any], context: int) -> Paths:
        """The paths below position.scaling."""
        if kind == "default":
            return {}
        said = {key: value for key, value in said.items() if value is not None or (kind, key) == ("yarn", "factor")}
        original = whole(f"config.json: rope_parameters.{ORIGINAL}", said[ORIGINAL]) if ORIGINAL in said else None
        if missing := next((key for key in NEEDED[kind] if key not in said), ""):
            raise Mistake(f"config.json: rope_parameters.{missing} is missing; {kind} rope needs it")
        if kind == "yarn":
            said = completed(said, context)
        if original == context:
            said.pop(ORIGINAL)  # as where it is left out
        fields = {KEYS[kind][key]: value for key, value in said.items()}
        return {"position.scaling.kind": kind} | {f"position.scaling.{name}": value for name, value in fields.items()}

    def write(self, layers: Layers) -> dict[str, Any]:
        rope = layers[0].position
        if not isinstance(rope, Rope):
            return {}
        parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": rope.theta}
        if self.is_partial:
            parameters["partial_rotary_factor"] = rope.fraction
        if kind := KINDS.get(type(rope.scaling)):
            values = {key: getattr(rope.scaling, name) for key, name in KEYS[kind].items() if name}
            parameters |= {"rope_type": kind} | {key: value for key, value in values.items() if value is not None}
        return {"rope_parameters": parameters}


def completed(said: dict[str, Any], context: int) -> dict[str, Any]:
    """YaRN's parameters with what transformers makes of those that are left out, or null. Raises Mistake."""
    said = dict(said)
    mscale, over = said.pop("mscale", None), said.pop("mscale_all_dim", None)
    if said["factor"] is None and ORIGINAL not in said:
        raise Mistake(
            f"config.json: rope_parameters.factor = None needs {ORIGINAL}, which is missing; write one of them"
        )
    if said["factor"] is None:
        said["factor"] = context / said[ORIGINAL]
    if "attention_factor" not in said and mscale and over:
        growth = 0.1 * math.log(max(1.0, positive("rope_parameters.factor", said["factor"])))
        up, down = positive("rope_parameters.mscale", mscale), positive("rope_parameters.mscale_all_dim", over)
        said["attention_factor"] = (up * growth + 1) / (down * growth + 1)
    for key, default in (("beta_fast", 32.0), ("beta_slow", 1.0)):
        said[key] = said.get(key) or default
    return said
