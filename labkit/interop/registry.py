"""The architectures that labkit reads and writes, and which of them can express a spec."""

from collections.abc import Mapping
from typing import Any

from labkit.interop.architecture import Architecture
from labkit.interop.gemma2 import GEMMA2
from labkit.interop.gpt2 import GPT2
from labkit.interop.gpt_neox import GPT_NEOX
from labkit.interop.gptj import GPTJ
from labkit.interop.llama import LLAMA
from labkit.interop.mistral import MISTRAL
from labkit.interop.olmo2 import OLMO2
from labkit.interop.qwen2 import QWEN2
from labkit.interop.qwen3 import QWEN3
from labkit.model import ModelSpec
from labkit.spec import Mistake

ALL = (LLAMA, MISTRAL, QWEN2, QWEN3, GPT2, GPT_NEOX, GPTJ, OLMO2, GEMMA2)
ARCHITECTURES = {each.model_type: each for each in ALL}
"""By model type; the first that can express a spec is taken."""


def named(config: Mapping[str, Any]) -> Architecture:
    """The architecture of a config.json. Raises Mistake for one that labkit does not know."""
    model_type = config.get("model_type")
    if model_type in list(ARCHITECTURES):
        return ARCHITECTURES[model_type]
    raise Mistake(f"config.json: model_type = {model_type!r} is none that labkit reads: {', '.join(ARCHITECTURES)}")


def fitting(spec: ModelSpec) -> Architecture:
    """The architecture that expresses a spec exactly. Raises Mistake with what stands in the nearest one's way."""
    faults: dict[str, dict[str, tuple[str, str]]] = {}
    refusals: list[str] = []
    for name, architecture in ARCHITECTURES.items():
        try:
            faults[name] = architecture.faults(spec)
        except Mistake as mistake:
            refusals.append(f"{name}: {mistake}")
            continue
        if not faults[name]:
            return architecture
    if not faults:
        raise Mistake("no architecture of transformers can express this model.\n" + "\n".join(refusals))
    nearest = min(faults, key=lambda name: _distance(faults[name]))
    ways = "\n".join(f"model.{path}: {here} here, {there} there" for path, (here, there) in faults[nearest].items())
    raise Mistake(f"no architecture of transformers can express this model; the nearest is {nearest}, but\n{ways}")


def _distance(faults: dict[str, tuple[str, str]]) -> tuple[int, int]:
    """Few differences are near, and of as many those deep inside of a component."""
    return len(faults), -sum(path.count(".") for path in faults)
