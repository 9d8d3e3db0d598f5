"""Models from elsewhere in labkit's own words.

<folder>/model.json            the spec, the vocabulary's size, and where they come from
<folder>/weights.safetensors   the logical parameters, in the precision that they came in
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from labkit.components.parameters import logical
from labkit.faults import explain
from labkit.interop import folder as theirs
from labkit.interop.clauses import whole
from labkit.model import ModelSpec, Transformer
from labkit.spec import Mistake, ValidationError, lean
from labkit.tracking.atomic import Damaged, read_json, write_json
from labkit.train.tensors import write_tensors

VERSION = 1
MODEL, WEIGHTS = "model.json", "weights.safetensors"


def import_folder(source: Path, target: Path) -> ModelSpec:
    """Write the model of a transformers folder as labkit's own; where this very model is already, it is written again.

    Raises Mistake for what labkit cannot express, and for a target that holds anything else.
    """
    spec, vocab_size, weights = theirs.read(source)
    about = {"version": VERSION, "source": str(source.absolute()), "vocab_size": vocab_size, "spec": spec.as_json()}
    theirs.make_room(target, own=(MODEL, WEIGHTS) if _is_there(target, about, weights) else ())
    write_tensors(weights, target / WEIGHTS)
    write_json(target / MODEL, about)
    return spec


def _is_there(folder: Path, about: Mapping[str, Any], weights: Mapping[str, Tensor]) -> bool:
    """Whether a folder holds a model of this spec and these weights, wherever it came from.

    Its source does not tell: another model may lie there by now.
    """
    try:
        if {**read_json(folder / MODEL), "source": ""} != {**about, "source": ""}:
            return False
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            names = sorted(file.keys())
            return names == sorted(weights) and all(torch.equal(file.get_tensor(name), weights[name]) for name in names)
    except (Damaged, OSError, SafetensorError):
        return False


def as_python(spec: ModelSpec) -> str:
    """The spec as it is written in a file of baselines, without what equals the defaults."""
    lines = [f"    {name}={_as_python(value)},\n" for name, value in lean(spec).items()]
    return f"ModelSpec(\n{''.join(lines)})"


def _as_python(value: Any) -> str:
    if isinstance(value, dict):
        kind_first = sorted(value.items(), key=lambda field: field[0] != "kind")
        inner = [f"{_as_python(name)}: {_as_python(item)}" for name, item in kind_first]
        return _as_python(value["kind"]) if list(value) == ["kind"] else f"{{{', '.join(inner)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_python, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def load(folder: Path | str) -> tuple[ModelSpec, Transformer]:
    """The spec and the model in a folder of transformers, or in one that `labkit import` wrote.

    On the CPU, in fp32, or in fp64 if it is stored so. Raises Mistake.
    """
    folder = Path(folder)
    spec, vocab_size, weights = _own(folder) if (folder / MODEL).exists() else theirs.read(folder)
    return spec, filled(spec, vocab_size, weights)


def filled(spec: ModelSpec, vocab_size: int, weights: Mapping[str, Tensor]) -> Transformer:
    """A model with these logical parameters. Raises Mistake where they are others than it has."""
    model = Transformer(spec, vocab_size)
    if any(tensor.dtype == torch.float64 for tensor in weights.values()):
        model = model.double()
    views = logical(model)
    for name in sorted(views.keys() | weights.keys()):
        shapes = [tuple(have[name].shape) if name in have else None for have in (weights, views)]
        if shapes[0] != shapes[1]:
            raise Mistake(f"the weights and the spec do not fit: {name} is {shapes[0]} here and {shapes[1]} there")
    for name, view in views.items():
        view.copy_(weights[name])
    return model


def _own(folder: Path) -> tuple[ModelSpec, int, dict[str, Tensor]]:
    about = read_json(folder / MODEL)
    if about.get("version") != VERSION:
        raise Mistake(f"{folder / MODEL}: written by another labkit; import the model again")
    try:
        spec, weights = ModelSpec.from_json(about["spec"]), load_file(folder / WEIGHTS)
    except ValidationError as error:
        raise Mistake(f"{folder / MODEL}: {explain(error, ModelSpec)}") from error
    except (KeyError, OSError, SafetensorError) as error:
        raise Mistake(f"{folder}: is damaged ({error}); import the model again") from error
    return spec, whole(f"{folder / MODEL}: vocab_size", about.get("vocab_size")), weights
