"""Arms of several experiments side by side: only of one metric on the same data, and what they share stands once."""

from dataclasses import replace

import pytest

from labkit.report.across import across, told
from labkit.report.comparison import compare
from labkit.spec import Mistake


@pytest.fixture
def norms(pair, synthetic):
    """A second experiment on the same baseline, with an arm of its own; and the first one, compared."""
    first = compare(pair.edition)
    other = synthetic(question="Which norm?")
    other.edition = type(pair.edition)(pair.edition.path.parents[1] / "norms" / "main")
    other.arm("baseline")
    other.arm("layer", fingerprint="cafe" * 4, params=200_000)
    for seed in range(3):
        other.run("baseline", seed, first.baseline.finals[seed])
        other.run("layer", seed, first.baseline.finals[seed] + 0.03 + 0.001 * seed)
    return first, compare(other.edition)


def test_a_shared_baseline_stands_once_and_every_arm_is_named_with_its_experiment(norms) -> None:
    found = across(norms)
    assert [arm.name for arm in found.arms] == ["theta:baseline", "theta:1e5", "theta:5e5", "norms:layer"]
    assert found.shared == ("norms:baseline is theta:baseline",)
    headers, rows, sides = found.rows()
    assert len(headers) == len(sides) == len(rows[0])


def test_arms_of_both_are_paired_by_seed_with_simultaneous_intervals(norms) -> None:
    first, _ = norms
    found = across(norms)
    layer, better = found.arms[3].difference, found.arms[1].difference
    assert (layer.n, layer.mean) == (3, pytest.approx(0.031))
    assert layer.low < layer.mean < layer.high
    assert better.mean == pytest.approx(first.arms[1].difference.mean)
    assert dict(told(found))["paired"] == "over seeds 0, 1 and 2"


def test_arms_of_unequal_seeds_are_told_with_the_seeds_that_each_shares_with_the_baseline(norms) -> None:
    first, other = norms
    layer = replace(other.arms[1], outcomes=other.arms[1].outcomes[:2])
    found = across([first, replace(other, arms=(other.arms[0], layer))])
    assert found.arms[3].difference.n == 2
    assert (
        dict(told(found))["paired"] == "theta:1e5 and theta:5e5 over seeds 0, 1 and 2; norms:layer over seeds 0 and 1"
    )
    apart = tuple(replace(run, record={**run.record, "seed_index": run.seed + 7}) for run in layer.outcomes)
    found = across([first, replace(other, arms=(other.arms[0], replace(layer, outcomes=apart)))])
    assert dict(told(found))["paired"].endswith("; norms:layer over no seed")


def test_a_mean_is_over_the_seeds_of_its_difference_with_the_baseline_over_the_same_beside_it(norms) -> None:
    first, other = norms
    layer = replace(other.arms[1], outcomes=other.arms[1].outcomes[:2])
    found = across([first, replace(other, arms=(other.arms[0], layer))])
    headers, rows, _ = found.rows()
    row = dict(zip(headers, rows[3], strict=True))
    gap = float(row["val/loss"]) - float(row["baseline, same seeds"])
    assert (gap, row["seeds"]) == (pytest.approx(float(row["Δ val/loss"]), abs=2e-4), "2")
    assert "baseline, same seeds" not in across(norms).rows()[0]
    more = [replace(layer.outcomes[0], record={**layer.outcomes[0].record, "seed_index": 9})]
    found = across([first, replace(other, arms=(other.arms[0], replace(layer, outcomes=(*layer.outcomes, *more))))])
    assert (found.rows()[1][3][4], found.rows()[0][4]) == ("2 of 3", "seeds")
    assert not [note for note in found.notes if "the mean is of all" in note.text]


def test_an_arm_that_never_ran_is_named_once_and_has_no_row(norms) -> None:
    first, other = norms
    found = across([first, replace(other, arms=(other.arms[0], replace(other.arms[1], outcomes=())))])
    assert [arm.name for arm in found.arms] == ["theta:baseline", "theta:1e5", "theta:5e5"]
    assert (dict(told(found))["never ran"], found.as_json()["never_run"]) == ("norms:layer", ["norms:layer"])
    assert not [note for note in found.notes if "norms:layer" in note.text]


def test_what_the_variants_were_matched_on_is_told_with_what_it_changed(norms) -> None:
    match = {"on": "params", "path": "model.feedforward.d_ff", "residual_percent": 0.11, "residual_nats": 0.0005}
    first, other = (replace(comparison, match="params") for comparison in norms)
    layer = replace(other.arms[1], label="layer, d_ff 144", matched={**match, "law": "Hoffmann"}, params=200_000)
    found = across([first, replace(other, arms=(other.arms[0], layer))])
    assert found.rows()[1][3][0] == "norms:layer, d_ff 144"
    assert next(note.text for note in found.notes if note.kind == "budget").endswith("(matched on: params).")
    assert dict(told(found))["matched"] == "norms: params within 0.11 %, worth < .0006 nats by Hoffmann"
    assert across([first, replace(other, match="none")]).match == "params in theta and none in norms"


def test_what_differs_in_size_is_noted(norms) -> None:
    notes = [note.text for note in across(norms).notes if note.kind == "budget"]
    assert notes == ["norms:layer has 17.6 % more parameters than the baseline (matched on: none)."]


def test_other_data_and_another_metric_are_refused_in_one_message(norms) -> None:
    first, other = norms
    for outcome in other.outcomes:
        outcome.record["data"]["hash"] = "beef" * 4
    with pytest.raises(Mistake) as refused:
        across(norms)
    assert str(refused.value) == (
        "theta (stdlib, hash d0d0) and theta@main (stdlib, hash beefbeef) ran on different data: their losses do not "
        "compare; run one of them on the data of the other"
    ).replace("theta@main", other.title)
    with pytest.raises(Mistake, match="theta is about val/loss, norms about val/bpb: only arms of one metric"):
        across([first, replace(other, metric="val/bpb")])


def test_long_titles_go_by_letters_where_a_table_would_repeat_them(norms) -> None:
    first, other = norms
    title = "norms@model.n_layers=2+optimizer.lr=0.01"
    found = across([first, replace(other, title=title)], brief=True)
    assert [arm.name for arm in found.arms] == ["A:baseline", "A:1e5", "A:5e5", "B:layer"]
    assert (found.heading, found.shared) == (f"A theta beside B {title}", ("B:baseline is A:baseline",))
    assert across([first, replace(other, title=title)]).arms[3].name == f"{title}:layer"
    assert across(norms, brief=True).heading == "theta beside norms"
