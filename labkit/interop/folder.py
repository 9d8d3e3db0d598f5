"""Folders of transformers: config.json beside one file of safetensors or several with an index."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from labkit.components.parameters import logical
from labkit.interop.architecture import Architecture
from labkit.interop.clauses import whole
from labkit.interop.registry import named
from labkit.model import ModelSpec, Transformer
from labkit.spec import Mistake
from labkit.tracking.atomic import read_json

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
READ = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""What weights may be stored in: numbers that are the weights themselves."""


class Stored:
    """The tensors of a folder, read one by one, with a note of which were asked for."""

    def __init__(self, folder: Path, architecture: Architecture) -> None:
        self.folder, self.architecture = folder, architecture
        self.file_of = {name: file for file in self._files() for name in _names(file)}
        self.asked: set[str] = set()

    def _files(self) -> list[Path]:
        if (self.folder / WEIGHTS).is_file():
            return [self.folder / WEIGHTS]
        places = read_json(self.folder / INDEX).get("weight_map", {})
        shards = list(places.values()) if isinstance(places, dict) else [places]
        if odd := [shard for shard in shards if not isinstance(shard, str) or Path(shard).name != shard]:
            raise Mistake(f"{self.folder / INDEX}: weight_map has {odd[0]!r}, which names no file of the folder")
        if shards:
            return [self.folder / shard for shard in sorted(set(shards))]
        raise Mistake(f"{self.folder}: no {WEIGHTS} and no {INDEX}; save the model with transformers' save_pretrained")

    def __call__(self, name: str) -> Tensor:
        """A tensor by its full name, which a file of the bare model may have without its prefix."""
        bare = name.removeprefix(self.architecture.prefix)
        stored = name if name in self.file_of else bare
        if stored not in self.file_of:
            raise Mistake(f"{self.folder}: no tensor {name}, which config.json asks for")
        self.asked.add(stored)
        with safe_open(self.file_of[stored], framework="pt") as file:
            tensor = file.get_tensor(stored)
        if tensor.dtype not in READ:
            known = ", ".join(str(dtype).removeprefix("torch.") for dtype in READ)
            raise Mistake(f"{self.folder}: {name} holds {tensor.dtype}, not one of {known}: save it unquantized")
        if n_others := tensor.numel() - int(tensor.isfinite().sum()):
            raise Mistake(
                f"{self.folder}: {name} holds {n_others:,} values of {tensor.numel():,} that are NaN or infinite; "
                "no text could be scored with it: take weights from before the training diverged"
            )
        return tensor

    def check_all_read(self, tied_to: Tensor | None) -> None:
        """Raise Mistake for a tensor that nothing asked for, unless it is computed or the tied embedding again."""
        for name in sorted(self.file_of.keys() - self.asked):
            if re.search(self.architecture.buffers, name):
                continue
            is_head = name == f"{self.architecture.head}.weight"
            if is_head and tied_to is not None and torch.equal(self(name), tied_to):
                continue
            why = ", and it is not the embedding that config.json ties it to" if is_head else ""
            raise Mistake(f"{self.folder}: the tensor {name} has no place in the model of config.json{why}")


def read(folder: Path) -> tuple[ModelSpec, int, dict[str, Tensor]]:
    """The spec, the vocabulary's size, and the logical parameters as they are stored. Raises Mistake."""
    config = config_of(folder)
    architecture = named(config)
    spec, vocab_size = architecture.spec(config), _vocab_size(config)
    with torch.device("meta"):
        shapes = {name: view.shape for name, view in logical(Transformer(spec, vocab_size)).items()}
    stored = Stored(folder, architecture)
    weights = architecture.tensors.read(stored, shapes, spec)
    stored.check_all_read(None if "head.project.weight" in shapes else weights["embedding.weight"])
    return spec, vocab_size, weights


def config_of(folder: Path) -> dict[str, Any]:
    """What config.json says. Raises Mistake where there is none."""
    if folder.is_file():
        raise Mistake(f"{folder}: this is a file; write the folder that it lies in, {folder.parent}")
    if not folder.is_dir():
        raise Mistake(f"{folder}: no such folder; write that of a model that transformers saved")
    if config := read_json(folder / "config.json"):
        return config
    raise Mistake(f"{folder}: no config.json in this folder; write that of a model that transformers saved")


def make_room(target: Path, own: Collection[str] = ()) -> None:
    """A folder that holds nothing but files of these names, which will be written anew.

    Raises Mistake for others: they may be a model that nobody wants to lose, or be read as part of the new one.
    """
    if file := next((path for path in (target, *target.parents) if path.exists() and not path.is_dir()), None):
        raise Mistake(f"{target}: {file} is a file; write the name of a new folder")
    others = sorted({file.name for file in target.iterdir()} - set(own)) if target.is_dir() else []
    if others:
        raise Mistake(f"{target}: holds {others[0]} already; write the name of a new folder, or remove this one")
    target.mkdir(parents=True, exist_ok=True)


def _vocab_size(config: Mapping[str, Any]) -> int:
    return whole("config.json: vocab_size", config.get("vocab_size"))


def _names(file: Path) -> list[str]:
    try:
        with safe_open(file, framework="pt") as tensors:
            return list(tensors.keys())
    except (OSError, SafetensorError) as error:
        raise Mistake(f"{file}: no readable safetensors: {error}") from error
