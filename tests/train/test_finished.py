"""What is taken out of a run: only the weights and the data that it was trained to and on."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from labkit.spec import Mistake
from labkit.tracking.progress import Progress
from labkit.tracking.record import Edition, Run
from labkit.train.finished import final_weights, store_of
from tests.report.conftest import DESCRIPTION, Synthetic
from tests.train.conftest import Lab

Weights = dict[str, torch.Tensor]


def test_the_weights_of_a_run_are_those_that_it_ended_with(lab: Lab) -> None:
    run = lab.train()
    stored = load_file(run.checkpoints / "final.safetensors")
    weights = final_weights(run, lab.spec)
    assert weights.keys() == stored.keys()
    assert all(torch.equal(weights[name], stored[name]) for name in stored)


@pytest.mark.parametrize("status", ["planned", "running", "paused", "diverged", "stopped", "pruned", "failed"])
def test_a_run_that_is_not_done_gives_none_whatever_lies_there(lab: Lab, status: str) -> None:
    run = lab.train()
    run.update(status=status)
    with pytest.raises(Mistake, match=f"this run is {status} and has no final weights"):
        final_weights(run, lab.spec)


def without_embedding(weights: Weights) -> Weights:
    return {name: value for name, value in weights.items() if name != "embedding.weight"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (without_embedding, "embedding.weight"),
        (lambda weights: {**weights, "embedding.weight": torch.tensor(1.0)}, "embedding.weight"),
        (lambda weights: {**weights, "norm.gain": torch.ones(3)}, "norm.gain"),
        (lambda weights: {**weights, "norm.gain": torch.ones(16, dtype=torch.int32)}, "norm.gain"),
        (lambda weights: {**weights, "more": torch.ones(3)}, "more"),
        (lambda weights: {}, "embedding.weight, layers.0"),
    ],
)
def test_weights_that_are_not_the_specs_are_named(lab: Lab, change: Callable[[Weights], Weights], named: str) -> None:
    run = lab.train()
    file = run.checkpoints / "final.safetensors"
    weights = {name: value.clone() for name, value in load_file(file).items()}
    file.unlink()
    save_file(change(weights), file)
    with pytest.raises(Mistake, match=f"are not the spec's: {named}"):
        final_weights(run, lab.spec)


def test_damaged_weights_are_told_with_the_folder_to_remove_and_the_command_to_repeat(lab: Lab, tmp_path: Path) -> None:
    edition = Edition(tmp_path / "runs" / "theta" / "main")
    (edition.path / "baseline").mkdir(parents=True)
    run = Run(lab.train().path.rename(edition.path / "baseline" / "seed0-0"))
    file = run.checkpoints / "final.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    remove = re.escape(f"; remove the folder {run.path} and repeat  ")
    with pytest.raises(Mistake, match=rf"cannot be read \(.*\){remove}the command that trained it$"):
        final_weights(run, lab.spec)
    Synthetic(edition, DESCRIPTION).arm("baseline")
    with pytest.raises(Mistake, match=rf"{remove}labkit run experiments/theta\.py$"):
        final_weights(run, lab.spec)


@pytest.mark.parametrize("data", [{}, {"store": ""}, {"hash": "x"}])
def test_a_record_without_its_data_is_said_to_be_so(lab: Lab, data: dict[str, Any]) -> None:
    run: Run = lab.train()
    run.update(data=data)
    with pytest.raises(Mistake, match="does not say which data"):
        store_of(run, lab.spec, Progress())


def test_a_store_of_other_data_is_not_taken_for_the_runs(lab: Lab) -> None:
    run = lab.train()
    run.update(data={**run.record()["data"], "hash": "another"})
    with pytest.raises(Mistake, match="has changed since"):
        store_of(run, lab.spec, Progress())
