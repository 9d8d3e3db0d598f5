"""A trained run as a folder that transformers loads without code of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labkit.components.parameters import logical
from labkit.data.tokenizer import Byte
from labkit.interop import folder
from labkit.interop.architecture import Architecture
from labkit.interop.canonical import training_only
from labkit.interop.registry import fitting
from labkit.interop.tokenizer import described_bytes, described_tokenizer, write_tokenizer
from labkit.model import ModelSpec, Transformer
from labkit.tracking.atomic import write_json
from labkit.tracking.progress import Progress
from labkit.tracking.record import Run
from labkit.train.finished import final_weights, store_of
from labkit.train.run import RunSpec
from labkit.train.tensors import write_tensors


class Exported(NamedTuple):
    """What was written."""

    architecture: str
    """The class of transformers."""
    notes: tuple[str, ...]
    """What of the spec acts in training only and has no field there."""


def export_run(run: Run, spec: RunSpec, target: Path, progress: Progress) -> Exported:
    """Write a finished run's model and tokenizer into a new folder, or an empty one.

    Raises Mistake for a spec that no architecture expresses, and where the weights or the data are not there.
    """
    architecture, weights = fitting(spec.model), final_weights(run, spec)
    is_bytes = isinstance(spec.tokenizer, Byte)
    described = described_bytes() if is_bytes else described_tokenizer(spec.tokenizer, store_of(run, spec, progress))
    folder.make_room(target)
    write_tokenizer(described, spec.model.context, target)
    return write_model(spec.model, weights, target, architecture, end=described.end)


def export_model(model: Transformer, target: Path, end: int | None = None) -> Exported:
    """Write a model, without a tokenizer; `end` is the token that ends a text. Raises Mistake."""
    architecture = fitting(model.spec)
    folder.make_room(target)
    return write_model(model.spec, logical(model), target, architecture, end=end)


def write_model(
    spec: ModelSpec, weights: Mapping[str, Tensor], target: Path, architecture: Architecture, *, end: int | None
) -> Exported:
    """Write config.json, generation_config.json and model.safetensors."""
    vocab_size, dtype = len(weights["embedding.weight"]), weights["embedding.weight"].dtype
    ends = {"bos_token_id": None, "eos_token_id": end, "pad_token_id": None}
    config: dict[str, Any] = {
        "architectures": [architecture.name],
        "model_type": architecture.model_type,
        "vocab_size": vocab_size,
        **architecture.config(spec),
        **ends,
        "dtype": str(dtype).removeprefix("torch."),
    }
    _check(architecture, spec, weights)
    tensors = architecture.tensors.written(weights, spec)
    owned = {name: _owned(tensor) for name, tensor in tensors.items()}
    write_tensors(owned, target / folder.WEIGHTS, {"format": "pt"})
    write_json(target / "config.json", config)
    write_json(target / "generation_config.json", {name: value for name, value in ends.items() if value is not None})
    there = architecture.spec(config)
    return Exported(architecture.name, tuple(_notes(spec, there, architecture.model_type)))


def _check(architecture: Architecture, spec: ModelSpec, weights: Mapping[str, Tensor]) -> None:
    """Every parameter has a place; if not, the architecture's table of tensors is at fault, not the spec."""
    placed = {name for _, ours, _ in architecture.tensors.pairs(weights, spec) for name in ours}
    assert placed == set(weights), f"{architecture.model_type}: no place for {sorted(set(weights) - placed)}"


def _owned(tensor: Tensor) -> Tensor:
    """In memory of its own, on the host: views of packed tensors share theirs."""
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def _notes(spec: ModelSpec, there: ModelSpec, model_type: str) -> list[str]:
    found = training_only(spec, there).items()
    return [f"model.{path}: {here} in training here, {other} in {model_type}" for path, (here, other) in found]
