"""Quality against cost: only where arms differ in it, and who is beaten in both."""

import math
from dataclasses import replace

from labkit.report.comparison import compare
from labkit.report.costs import costs, frontier, training_seconds


def test_the_frontier_is_what_nothing_beats_in_both() -> None:
    assert frontier([(3.0, 1.0), (1.0, 2.0), (2.0, 2.5), (4.0, 1.0)]) == [(1.0, 2.0), (3.0, 1.0)]


def test_arms_of_equal_cost_are_not_drawn(pair) -> None:
    assert costs(compare(pair.edition).arms) == []


def test_compute_and_time_are_drawn_where_they_differ(pair) -> None:
    pair.arm("1e5", flops_per_token=2e6)
    pair.at("5e5", 0).update(seconds=60.0)
    pair.at("5e5", 1).update(seconds=40.0)
    arms = compare(pair.edition).arms
    assert training_seconds(arms[2]) == 40.0
    assert [plot.name for plot in costs(arms)] == ["compute", "time"]
    assert "2.00e+11" in costs(arms)[0].svg


def test_there_is_no_time_where_a_note_disowns_the_speed_or_runs_shared_a_gpu(pair) -> None:
    pair.at("5e5", 0).update(seconds=60.0)
    *_, arm = compare(pair.edition).arms
    assert math.isnan(training_seconds(replace(arm, clocked=False)))
    for seed in range(3):
        pair.at("5e5", seed).update(side_by_side=2)
    *_, arm = compare(pair.edition).arms
    assert math.isnan(training_seconds(arm))
