import json
import math
import re

import pytest

from labkit.report.comparison import compare
from labkit.report.latex import latex
from labkit.spec import Mistake
from labkit.tracking.record import Edition


def test_the_baseline_comes_first_and_every_row_has_every_column(pair) -> None:
    comparison = compare(pair.edition)
    headers, rows, alignments = comparison.rows()
    assert [arm.name for arm in comparison.arms] == ["baseline", "1e5", "5e5"]
    assert {len(row) for row in rows} == {len(headers)} == {len(alignments)}
    assert rows[0][:6] == ["baseline", "-", "-", "-", "-", "2.0000"]
    assert rows[1][:5] == ["1e5", "-0.0490", "[-0.0639, -0.0341]", "-", "WIN"]
    assert rows[1][5:] == ["1.9510", "0.0195", "1.3007", "0.17M", "45.2k", "3 of 3"]


def test_the_short_table_gives_each_variants_verdict(pair) -> None:
    headers, rows, _ = compare(pair.edition).brief_rows()
    assert headers == ["arm", "Δ val/loss", "95 % simultaneous", "text±", "tok/s", "verdict"]
    assert rows[0] == ["1e5", "-0.0490", "[-0.0639, -0.0341]", "-", "+0.0 %", "WIN"]
    assert rows[1][-1].startswith("unresolved: ")
    assert compare(pair.edition).header == (
        "baseline 2.0000 · 3 seeds · σ over seeds 0.0055 (4 degrees of freedom) · margin M ±0.005"
    )


@pytest.mark.parametrize(
    ("label", "header", "row"),
    [
        ("theta=10000", "baseline theta=10000 2.0000 · ", "baseline (theta=10000)* & "),
        ("theta=10000, norm=layer, activation=swiglu", "baseline 2.0000 · ", "baseline* & "),
    ],
)
def test_the_baseline_is_called_by_its_choices_where_these_are_few(pair, label: str, header: str, row: str) -> None:
    pair.arm("baseline", label=label)
    found = compare(pair.edition)
    assert found.header.startswith(header)
    assert f"\n{row}" in latex(found)


def test_under_the_table_stands_what_the_verdicts_rest_on_and_how_far_they_reach(pair) -> None:
    told = dict(compare(pair.edition).footing)
    assert told["text"] == (
        "no interval over documents, so the words rest on the seeds alone: "
        "9 runs of baseline, 1e5 and 5e5 have no losses by document to read; remove their folders, and run it again"
    )
    assert told["power"] == "a difference of 0.0197 is shown with 80 % power"
    assert told["pairing"] == "by seed removed 92 % of the variance"
    assert (told["confounds"], told["diverged"], told["epochs"]) == ("none", "0 of 9 runs", "0.4")
    assert told["scope"] == "0.17M params, 0.10M tokens, stdlib: no claim beyond"


@pytest.mark.parametrize(
    ("losses", "told"),
    [
        ([2.0, 2.1, 2.2], "by seed did not help: 100 % more variance than unpaired"),
        ([2.1, 2.0, 2.1], "by seed changed nothing: the runs of a seed have nothing in common"),
    ],
)
def test_pairing_that_removes_nothing_is_said_to_be_no_help(synthetic, losses: list[float], told: str) -> None:
    experiment = synthetic()
    experiment.arm("baseline")
    experiment.arm("1e5")
    for seed, (base, loss) in enumerate(zip([2.2, 2.1, 2.0], losses, strict=True)):
        experiment.run("baseline", seed, base)
        experiment.run("1e5", seed, loss)
    assert dict(compare(experiment.edition).footing)["pairing"] == told


def test_differences_are_paired_by_seed(pair) -> None:
    _, near, far = compare(pair.edition).arms
    assert near.finals == pytest.approx({0: 1.95, 1: 1.971, 2: 1.932})
    assert near.difference.mean == pytest.approx(-0.049)
    assert near.difference.spread == pytest.approx(0.001)
    assert near.difference.excludes_zero
    assert not far.difference.excludes_zero


def told(synthetic, **gaps: tuple[float, float]) -> str:
    """The answer where each arm lies a mean and a spread from a baseline, over three seeds."""
    experiment = synthetic()
    experiment.arm("baseline")
    for seed in range(3):
        experiment.run("baseline", seed, 2.0 + 0.02 * seed)
    for name, (gap, noise) in gaps.items():
        experiment.arm(name)
        for seed in range(3):
            experiment.run(name, seed, 2.0 + 0.02 * seed + gap + noise * (seed - 1))
    return compare(experiment.edition).answer


def test_variants_without_a_verdict_for_the_same_reason_are_told_together(level) -> None:
    said = compare(level(3, {"a": -0.03, "b": 0.02}, looks=[4, 6]).edition).answer
    assert re.fullmatch(
        r"In val/loss, a \(\[.*?\]\) and b \(\[.*?\]\) have no verdict \(.* 3 complete\)\. 95 %.*", said
    )


def test_the_answer_says_what_is_better_and_what_is_worse_by_how_much_the_best_first(synthetic) -> None:
    gaps = {"far": (0.04, 0.01), "near": (-0.02, 0.001), "noisy": (0.5, 0.9), "nearer": (-0.03, 0.001)}
    assert told(synthetic, **gaps) == (
        "In val/loss, nearer is better than the baseline by 0.0300 [0.0175, 0.0425]; "
        "near is better by 0.0200 [0.0075, 0.0325]; far is worse by 0.0400 [0.0275, 0.0525]; "
        "noisy ([-2.8842, +3.8842]) has no verdict (unstable, and 3 seeds are fewer than 5). "
        "95 % simultaneous intervals over 3 paired seeds."
    )


def test_the_answer_on_one_clear_variant_speaks_of_one_interval(pair, synthetic) -> None:
    assert told(synthetic, far=(0.04, 0.01)) == (
        "In val/loss, far is worse than the baseline by 0.0400 [0.0152, 0.0648]. 95 % interval over 3 paired seeds."
    )


def test_the_answer_lists_what_is_unresolved_with_the_seeds_that_would_settle_it(synthetic) -> None:
    assert told(synthetic, a=(0.0, 0.01), b=(0.001, 0.01)).startswith(
        "In val/loss, a ([-0.0191, +0.0191], 4 to 39 more seeds) and b ([-0.0181, +0.0201], 7 to 62 more seeds) are "
        "unresolved. "
    )


def test_the_answer_counts_what_is_too_much_to_name(synthetic) -> None:
    answer = told(synthetic, **{f"v{k:02}": (-0.1 - 0.01 * k, 0.001) for k in range(11)})
    assert answer.startswith("In val/loss, v10 is better than the baseline by 0.2000 [0.1983, 0.2017]; v09 is")
    assert "v03 is better by 0.1300 [0.1283, 0.1317]; 3 more are better. " in answer


def test_the_answer_says_what_ties_and_what_is_negligible(synthetic) -> None:
    answer = told(synthetic, a=(0.0, 0.0001), b=(0.002, -0.0001))
    assert "b is worse than the baseline by 0.0020 [" in answer
    assert "], negligible; a ([" in answer
    assert "]) ties. 95 %" in answer


def test_one_seed_gives_a_difference_and_says_that_it_has_no_interval(synthetic) -> None:
    experiment = synthetic(seeds=[0])
    for name, loss in (("baseline", 2.0), ("1e5", 1.9)):
        experiment.arm(name)
        experiment.run(name, 0, loss)
    comparison = compare(experiment.edition)
    assert comparison.rows()[1][1][1:3] == ["-0.1000", "-"]
    assert comparison.answer == (
        "In val/loss, 1e5 is 0.1000 lower in one seed: no interval, so noise cannot be told from effect."
    )


def test_the_answer_counts_the_rest_of_those_with_one_seed(synthetic) -> None:
    experiment = synthetic(seeds=[0])
    experiment.arm("baseline")
    experiment.run("baseline", 0, 2.0)
    for k in range(10):
        experiment.arm(f"v{k}")
        experiment.run(f"v{k}", 0, 1.9 + 0.01 * k)
    assert compare(experiment.edition).answer.endswith(
        "v7 is 0.0300 lower and 2 more were measured in one seed: no interval, so noise cannot be told from effect."
    )


def test_a_baseline_alone_is_no_comparison(synthetic) -> None:
    experiment = synthetic(seeds=[0])
    experiment.arm("baseline")
    experiment.run("baseline", 0, 2.0)
    assert compare(experiment.edition).answer == "The baseline alone: val/loss 2.0000 over 1 seed."
    experiment.run("baseline", 0, status="running", final={})
    assert compare(experiment.edition).answer == "The baseline alone, and no seed of it has finished."


def test_an_experiment_that_has_not_begun_says_so(synthetic) -> None:
    experiment = synthetic()
    experiment.arm("baseline")
    experiment.arm("1e5")
    comparison = compare(experiment.edition)
    assert comparison.answer.startswith("Nothing to compare yet")
    assert comparison.rows()[1][1] == [
        *("1e5", "-", "-", "-", "no verdict: no pair of seeds", "-", "-", "-", "0.17M", "-", "0 of 3, 3 missing")
    ]


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
    assert [arm.name for arm in comparison.not_run] == ["1e5"]
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
    assert {arms[0]["difference"][name] for name in ("mean", "low", "high", "spread", "error")} == {None}
    assert arms[1]["difference"]["mean"] == pytest.approx(-0.049)
    assert arms[1]["finals"]["0"] == pytest.approx(1.95)
    assert [run["status"] for run in arms[1]["runs"]] == ["done"] * 3
    assert "2" not in arms[2]["finals"]


def test_facts_are_collected_without_repeats(pair) -> None:
    pair.at("5e5", 2).update(versions={"torch": "2.12.0"})
    assert compare(pair.edition).facts("versions")["torch"] == ["2.11.0", "2.12.0"]


def test_a_run_that_others_trained_beside_has_no_speed_of_its_own(pair) -> None:
    for seed in range(2):
        shared = pair.at("1e5", seed)
        shared.update(side_by_side=4, final=shared.record()["final"] | {"perf/tokens_per_s": 1.0})
    assert compare(pair.edition).arms[1].tokens_per_s == 45_200.0
    pair.at("1e5", 2).update(side_by_side=2)
    comparison = compare(pair.edition)
    assert math.isnan(comparison.arms[1].tokens_per_s)
    headers, rows, _ = comparison.brief_rows()
    assert rows[0][headers.index("tok/s")] == "-"


def test_the_speed_is_the_median_over_seeds(pair) -> None:
    pair.at("1e5", 0).update(final={"val/loss": 1.95, "perf/tokens_per_s": 1.0})
    arm = compare(pair.edition).arms[1]
    assert arm.tokens_per_s == 45_200.0
    assert math.isnan(compare(pair.edition).arms[0].difference.mean)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{}", '{"version": 1, "status": "done"}'])
@pytest.mark.parametrize("file", ["record.json", "spec.json"])
def test_a_damaged_run_is_left_out_and_said_and_the_rest_is_compared(pair, file, content) -> None:
    damaged = pair.at("1e5", 1)
    (damaged.path / file).write_text(content)
    comparison = compare(pair.edition)
    assert comparison.arms[1].finals == pytest.approx({0: 1.95, 2: 1.932})
    assert comparison.arms[1].missing == (1,)
    (note,) = [note for note in comparison.notes if note.kind == "damaged"]
    assert str(damaged.path / file) in note.text
    assert note.text.endswith(f"Remove the folder {damaged.path} to train it again.")


def test_damaged_metrics_cost_only_their_lines(pair) -> None:
    run = pair.at("1e5", 1)
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('[1,2]\n{"time": 1}\n{"step": 3, "time": 1, "val/loss": "low"}\n')
    comparison = compare(pair.edition)
    assert len(comparison.arms[1].outcomes[1].metrics["val/loss"]) == 10
    told = f"{run.path / 'metrics.jsonl'}: 3 lines hold no metrics and are left out"
    assert [note.text for note in comparison.notes if note.kind == "damaged"] == [told]


def test_a_folder_without_an_experiment_is_a_mistake_that_names_it(tmp_path) -> None:
    with pytest.raises(Mistake, match=r"main: there is no experiment\.json"):
        compare(Edition(tmp_path / "theta" / "main"))
