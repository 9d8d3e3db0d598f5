"""What a finished run leaves to work with: its model, and the data and tokenizer that it was trained on."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from labkit.components.parameters import logical, parts_of
from labkit.data import Store, prepare
from labkit.model import Transformer
from labkit.optim.weights import COMPUTE, MASTER, is_matrix
from labkit.spec import Mistake
from labkit.tracking.progress import Progress
from labkit.tracking.record import Edition, Run
from labkit.train.buffers import PREFIX, restore
from labkit.train.run import RunSpec

Tensors = dict[str, torch.Tensor]


def finished(run: Run, spec: RunSpec, device: torch.device) -> Transformer:
    """The model with its final weights, in the precision that it was trained in.

    Raises Mistake for a run that has no such weights, or that they do not fit.
    """
    weights, buffers = _final(run, spec)
    with torch.device("cpu"):
        model = Transformer(spec.model, len(weights["embedding.weight"]))
    for stored in model.parameters():  # buffers stay what they are, as in training
        stored.data = stored.data.to(MASTER[spec.precision])
    for name, view in logical(model).items():
        view.copy_(weights[name])
    for name, stored in model.named_parameters():
        precision = COMPUTE if is_matrix(parts_of(name, stored)) else MASTER
        stored.data = stored.data.to(precision[spec.precision])
    restore(model, buffers)
    return model.to(device).eval()


def final_weights(run: Run, spec: RunSpec) -> Tensors:
    """The logical parameters that training ended with, in its masters' precision.

    Raises Mistake for a run that is not done, and for weights that cannot be read or are not the spec's.
    """
    weights, _ = _final(run, spec)
    return weights


def _final(run: Run, spec: RunSpec) -> tuple[Tensors, Tensors]:
    """The same, and its buffers."""
    file = run.checkpoints / "final.safetensors"
    status = run.record().get("status", "not planned")
    if status != "done" or not file.exists():
        others = {"diverged": "choose one that is done", "done": trained_again(run)}
        remedy = others.get(status, "train it to its end with `labkit run`")
        raise Mistake(f"{run.path}: this run is {status} and has no final weights; {remedy}")
    try:
        weights = load_file(file, device="cpu")
    except (SafetensorError, OSError) as error:
        raise Mistake(f"{file}: cannot be read ({error}); {trained_again(run)}") from error
    buffers = {name: weights.pop(name) for name in list(weights) if name.startswith(PREFIX)}
    if others := sorted(unlike(weights, spec)):
        raise Mistake(f"{file}: these weights are not the spec's: {', '.join(others[:5])}; {trained_again(run)}")
    return weights, buffers


def trained_again(run: Run) -> str:
    """How a finished run is trained again, which its command alone does not do."""
    command = ""
    with suppress(Mistake):
        command = Edition(run.path.parents[1]).description().get("command", "")
    return f"remove the folder {run.path} and repeat  {command or 'the command that trained it'}"


def unlike(weights: dict[str, torch.Tensor], spec: RunSpec) -> Iterator[str]:
    """Parameters that are in the weights or in the spec's model only, or there in another shape or precision."""
    rows = weights.get("embedding.weight", torch.empty(0)).shape[:1]
    with torch.device("meta"):
        wanted = logical(Transformer(spec.model, rows[0] if rows else 0))
    for name in wanted.keys() | weights.keys():
        here, there = weights.get(name), wanted.get(name)
        if here is None or there is None or here.shape != there.shape or here.dtype != MASTER[spec.precision]:
            yield name


def store_of(run: Run, spec: RunSpec, progress: Progress) -> Store:
    """The store that a run was trained on; where it was removed, it is made again. Raises Mistake if that differs."""
    record = run.record()
    path, wanted = (record.get("data", {}).get(name, "") for name in ("store", "hash"))
    if not (path and wanted):
        raise Mistake(f"{run.path}: its record.json does not say which data it was trained on; {trained_again(run)}")
    found = Path(path, "store.json").exists()
    store = Store(Path(path)) if found else prepare(spec.data, spec.tokenizer, Path(record["base"]), progress)
    if store.hash != wanted:
        raise Mistake(
            f"{run.path}: its data store {path} is gone, and the corpus or the tokenizer has changed since; "
            f"bring the store back, or {trained_again(run)}"
        )
    return store
