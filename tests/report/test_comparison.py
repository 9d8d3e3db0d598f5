import json
import math

import pytest

from labkit.report.comparison import compare
from labkit.spec import Mistake
from labkit.tracking.record import Edition


def test_the_baseline_comes_first_and_every_row_has_every_column(pair) -> None:
    comparison = compare(pair.edition)
    headers, rows, alignments = comparison.rows()
    assert [arm.name for arm in comparison.arms] == ["baseline", "1e5", "5e5"]
    assert {len(row) for row in rows} == {len(headers)} == {len(alignments)}
    assert rows[0][:4] == ["baseline", "-", "-", "2.0000"]
    assert rows[1] == ["1e5", "-0.0490", "[-0.0515, -0.0465]", "1.9510", "0.0195", "1.3007", "0.17M", "45.2k", "3 of 3"]


def test_differences_are_paired_by_seed(pair) -> None:
    _, near, far = compare(pair.edition).arms
    assert near.finals == pytest.approx({0: 1.95, 1: 1.971, 2: 1.932})
    assert near.difference.mean == pytest.approx(-0.049)
    assert near.difference.spread == pytest.approx(0.001)
    assert near.difference.excludes_zero
    assert not far.difference.excludes_zero


def test_the_answer_names_the_largest_difference_and_whether_its_interval_excludes_zero(pair) -> None:
    assert compare(pair.edition).answer == (
        "The largest difference to the baseline in val/loss is -0.0490, of 1e5, and its 95 % interval over 3 paired "
        "seeds, [-0.0515, -0.0465], excludes zero; no other interval does."
    )


def test_a_small_clear_difference_is_not_hidden_by_a_large_noisy_one(synthetic) -> None:
    experiment = synthetic()
    for name in ("baseline", "noisy", "clear"):
        experiment.arm(name)
    for seed in range(3):
        experiment.run("baseline", seed, 2.0)
        experiment.run("noisy", seed, 2.0 + (seed - 0.5))
        experiment.run("clear", seed, 1.9 + 0.001 * seed)
    assert compare(experiment.edition).answer.endswith("includes zero; the interval of clear excludes zero.")


def test_the_answer_agrees_with_the_number_of_clear_intervals(synthetic) -> None:
    experiment = synthetic()
    for index, name in enumerate(("baseline", "a", "b", "c", "d", "e")):
        experiment.arm(name)
        for seed in range(3):
            experiment.run(name, seed, 2.0 - 0.1 * index + 0.001 * seed * index)
        if index == 3:
            assert compare(experiment.edition).answer.endswith("excludes zero; the intervals of a and b do too.")
    assert compare(experiment.edition).answer.endswith("excludes zero; the intervals of 4 other variants do too.")


def test_one_seed_gives_a_difference_and_says_that_it_has_no_interval(synthetic) -> None:
    experiment = synthetic(seeds=[0])
    for name, loss in (("baseline", 2.0), ("1e5", 1.9)):
        experiment.arm(name)
        experiment.run(name, 0, loss)
    comparison = compare(experiment.edition)
    assert comparison.rows()[1][1][1:3] == ["-0.1000", "-"]
    assert comparison.answer == (
        "The difference to the baseline in val/loss is -0.1000, of 1e5; one seed: no interval, so noise cannot be told "
        "from effect."
    )


def test_a_baseline_alone_is_no_comparison(synthetic) -> None:
    experiment = synthetic(seeds=[0])
    experiment.arm("baseline")
    experiment.run("baseline", 0, 2.0)
    assert compare(experiment.edition).answer == "The baseline alone: val/loss 2.0000 over 1 seed."


def test_an_experiment_that_has_not_begun_says_so(synthetic) -> None:
    experiment = synthetic()
    experiment.arm("baseline")
    experiment.arm("1e5")
    comparison = compare(experiment.edition)
    assert comparison.answer.startswith("Nothing to compare yet")
    assert comparison.rows()[1][1] == ["1e5", "-", "-", "-", "-", "-", "0.17M", "-", "0 of 3, 3 missing"]


def test_a_half_finished_experiment_pairs_what_there_is(synthetic) -> None:
    experiment = synthetic()
    for name in ("baseline", "1e5"):
        experiment.arm(name)
        experiment.run(name, 0, 2.0 if name == "baseline" else 1.9)
    experiment.run("1e5", 1, 1.9)
    experiment.run("baseline", 1, status="running", step=40, final={})
    variant = compare(experiment.edition).arms[1]
    assert (variant.difference.n, variant.difference.mean) == (1, pytest.approx(-0.1))
    assert variant.counts == {"done": 2, "missing": 1}
    assert compare(experiment.edition).baseline.counts == {"done": 1, "running": 1, "missing": 1}


def test_a_diverged_run_is_counted_and_has_no_final_value(pair) -> None:
    pair.at("1e5", 1).update(status="diverged", diverged_at=37, final={"val/loss": 9.9})
    arm = compare(pair.edition).arms[1]
    assert arm.finals == pytest.approx({0: 1.95, 2: 1.932})
    assert arm.mean == pytest.approx((1.95 + 1.932) / 2)
    assert (arm.difference.n, arm.counts) == (2, {"done": 2, "diverged": 1})
    assert compare(pair.edition).rows()[1][1][-1] == "2 of 3, 1 diverged"


def test_runs_of_another_definition_of_a_variant_are_left_out(pair) -> None:
    pair.arm("1e5", fingerprint="f" * 16)
    comparison = compare(pair.edition)
    assert comparison.arms[1].missing == (0, 1, 2)
    assert [run.record["variant"] for run in comparison.left_out] == ["1e5"] * 3


def test_of_two_runs_with_one_seed_the_one_started_last_counts(pair) -> None:
    again = pair.edition.run("1e5", 0, "e" * 16)
    again.create({}, pair.edition.runs()[0].record() | {"started": 1_800_000_000.0, "final": {"val/loss": 1.0}})
    comparison = compare(pair.edition)
    assert comparison.arms[1].finals[0] == 1.0
    assert len(comparison.left_out) == 1


def test_runs_of_seeds_that_are_no_longer_planned_still_count(pair) -> None:
    pair.description["seeds"] = [0]
    pair.arm("5e5")
    assert compare(pair.edition).arms[1].difference.n == 3


def test_another_metric_is_compared_in_its_own_figures(pair) -> None:
    pair.description["metric"] = "val/bpb"
    pair.arm("5e5")
    headers, rows, _ = compare(pair.edition).rows()
    assert headers.count("bits/byte") == 0
    assert {len(row) for row in rows} == {len(headers)}
    assert rows[1][1] == "-0.0327"


def test_as_json_holds_every_figure_and_no_nan(pair) -> None:
    pair.at("5e5", 2).update(final={"val/loss": None})
    text = json.dumps(compare(pair.edition).as_json(), allow_nan=False)
    arms = json.loads(text)["arms"]
    assert arms[0]["difference"] == {"mean": None, "low": None, "high": None, "n": 0, "spread": None}
    assert arms[1]["difference"]["mean"] == pytest.approx(-0.049)
    assert arms[1]["finals"]["0"] == pytest.approx(1.95)
    assert [run["status"] for run in arms[1]["runs"]] == ["done"] * 3
    assert "2" not in arms[2]["finals"]


def test_facts_are_collected_without_repeats(pair) -> None:
    pair.at("5e5", 2).update(versions={"torch": "2.12.0"})
    assert compare(pair.edition).facts("versions")["torch"] == ["2.11.0", "2.12.0"]


def test_the_speed_is_the_median_over_seeds(pair) -> None:
    pair.at("1e5", 0).update(final={"val/loss": 1.95, "perf/tokens_per_s": 1.0})
    arm = compare(pair.edition).arms[1]
    assert arm.tokens_per_s == 45_200.0
    assert math.isnan(compare(pair.edition).arms[0].difference.mean)


def test_a_folder_without_an_experiment_is_a_mistake_that_names_it(tmp_path) -> None:
    with pytest.raises(Mistake, match=r"main: there is no experiment\.json"):
        compare(Edition(tmp_path / "theta" / "main"))
