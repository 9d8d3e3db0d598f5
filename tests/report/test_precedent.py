"""The noise of a run is looked up by its conditions, and what is only assumed says so."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from labkit.report.precedent import ASSUMED, Conditions, precedent
from labkit.tracking.atomic import write_json

SPEC = {
    "data": {"corpus": "stdlib"},
    "tokenizer": {"kind": "byte"},
    "batch_size": 8,
    "model": {"context": 64},
    "schedule": {"kind": "cosine"},
    "precision": "fp32",
}
WANTED = Conditions.of(SPEC, "val/loss", 170_000, 100)


def on_record(experiment) -> Path:
    for run in experiment.edition.runs():
        write_json(run.path / "spec.json", {"version": 1, "spec": SPEC})
    return experiment.edition.path.parents[1]


def test_noise_under_the_same_conditions_is_taken_with_its_degrees_of_freedom(pair) -> None:
    found = precedent(on_record(pair), WANTED)
    assert (found.dof, found.source) == (4, "on record of theta")
    assert found.sigma == pytest.approx(0.0055, abs=5e-5)
    assert found.pair == pytest.approx(math.sqrt(2) * found.sigma)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"params": 200_000}, "size"),
        ({"steps": 200}, "steps"),
        ({"batch": 1024}, "batch"),
        ({"schedule": "wsd"}, "schedule"),
        ({"precision": "bf16"}, "precision"),
        ({"data": "books"}, "data"),
    ],
)
def test_other_conditions_are_only_assumed_and_named(pair, change, word) -> None:
    found = precedent(on_record(pair), replace(WANTED, **change))
    assert found.dof == 0
    assert found.source.endswith(f"the nearest, theta (0.17M parameters), differs in {word}")


def test_a_metric_that_nothing_was_measured_in_has_no_precedent(pair, tmp_path) -> None:
    assert precedent(on_record(pair), replace(WANTED, metric="val/bpb")).sigma == ASSUMED
    found = precedent(tmp_path / "nothing", WANTED)
    assert (found.sigma, found.dof) == (ASSUMED, 0)
    assert "no experiment with two seeds is on record" in found.source


def test_one_degree_of_freedom_is_no_ground_for_a_plan(synthetic) -> None:
    experiment = synthetic(seeds=[0, 1])
    for name, losses in (("baseline", (2.0, 2.1)), ("1e5", (1.9, 2.0001))):
        experiment.arm(name)
        for seed, loss in enumerate(losses):
            experiment.run(name, seed, loss)
    found = precedent(on_record(experiment), WANTED)
    assert (found.sigma, found.dof) == (ASSUMED, 0)
    assert found.source == "assumed: theta, on record, with 1 degree of freedom, says next to nothing"
