"""What a finished run leaves to work with: its model, and the data and tokenizer that it was trained on."""

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
from labkit.tracking.record import Run
from labkit.train.run import RunSpec


def finished(run: Run, spec: RunSpec, device: torch.device) -> Transformer:
    """The model with its final weights, in the precision that it was trained in.

    Raises Mistake for a run that has no such weights, or that they do not fit.
    """
    file = run.checkpoints / "final.safetensors"
    status = run.record().get("status", "not planned")
    if status != "done" or not file.exists():
        remedy = "train it to its end with `labkit run`" if status != "diverged" else "choose one that is done"
        raise Mistake(f"{run.path}: this run is {status} and has no final weights; {remedy}")
    try:
        weights = load_file(file, device="cpu")
    except (SafetensorError, OSError) as error:
        raise Mistake(f"{file}: cannot be read ({error}); train the run again") from error
    with torch.device("cpu"):
        model = Transformer(spec.model, len(weights["embedding.weight"]))
    model.to(MASTER[spec.precision])
    fill(model, weights, file)
    for name, stored in model.named_parameters():
        precision = COMPUTE if is_matrix(parts_of(name, stored)) else MASTER
        stored.data = stored.data.to(precision[spec.precision])
    return model.to(device).eval()


def fill(model: Transformer, weights: dict[str, torch.Tensor], file: Path) -> None:
    """Put logical parameters in their places. Raises Mistake where names or shapes are others."""
    views = logical(model)
    others = sorted(
        name
        for name in views.keys() | weights.keys()
        if name not in views or name not in weights or views[name].shape != weights[name].shape
    )
    if others:
        raise Mistake(f"{file}: these weights are not the spec's: {', '.join(others[:5])}; train the run again")
    for name, view in views.items():
        view.copy_(weights[name])


def store_of(run: Run, spec: RunSpec, progress: Progress) -> Store:
    """The store that a run was trained on; where it was removed, it is made again. Raises Mistake if that differs."""
    record = run.record()
    known = record.get("data", {})
    path = Path(known.get("store", ""))
    if (path / "store.json").exists():
        return Store(path)
    store = prepare(spec.data, spec.tokenizer, Path(record["base"]), progress)
    if store.hash != known.get("hash"):
        raise Mistake(
            f"{run.path}: its data store {path} is gone, and the corpus or the tokenizer has changed since; "
            f"bring the store back, or train the run again"
        )
    return store
