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
    found = across([first, replace(other, arms=(other.arms[0], replace(layer, outcomes=())))])
    assert dict(told(found))["paired"].endswith("; norms:layer over no seed")


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
