"""Whether an effect changes with the baseline: told where one change stands on two, with what else they differ in."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from labkit.cli import app
from labkit.report import interaction
from labkit.report.across import across, told
from labkit.report.comparison import compare

LOSSES = {
    ("qk", "baseline"): (2.31, 2.30, 2.32, 2.305, 2.29),
    ("qk", "qknorm"): (2.28, 2.275, 2.285, 2.28, 2.27),
    ("qk@lr", "baseline"): (2.40, 2.38, 2.41, 2.39),
    ("qk@lr", "qknorm"): (2.39, 2.385, 2.39, 2.385),
}


def spec(lr: float, norm: str) -> dict[str, object]:
    return {
        "model": {"qk_norm": {"kind": norm}},
        "optimizer": {"kind": "adamw", "lr": lr},
        "seed": {"data": lr},
    }


@pytest.fixture
def editions(synthetic, tmp_path):
    """One experiment at two learning rates, in the second of which one variant never ran; compared."""
    found = []
    for edition, lr in (("main", 0.001), ("lr", 0.002)):
        title = "qk" if edition == "main" else "qk@lr"
        one = synthetic()
        one.edition = type(one.edition)(tmp_path / "runs" / "qk" / edition)
        one.arm("baseline", fingerprint=f"{lr}")
        changes = {"model.qk_norm": ["none", "rms"]}
        one.arm("qknorm", fingerprint=f"{lr} rms", changes=changes)
        one.arm("unrun", fingerprint=f"{lr} layer", changes={"model.qk_norm": ["none", "layer"]})
        for name, norm in (("baseline", "none"), ("qknorm", "rms")):
            for seed, loss in enumerate(LOSSES[title, name]):
                one.run(name, seed, loss, spec=spec(lr, norm))
        found.append(compare(one.edition))
    return found


def test_the_change_of_an_effect_is_the_difference_of_differences_with_its_t_interval(editions) -> None:
    [one] = across(editions).interactions
    before, after = (
        np.subtract(LOSSES[title, "qknorm"][:4], LOSSES[title, "baseline"][:4]) for title in ("qk", "qk@lr")
    )
    oracle = stats.ttest_rel(after, before)
    low, high = oracle.confidence_interval(0.95)
    assert (one.variant, one.seeds) == ("qknorm", (0, 1, 2, 3))
    assert (one.before, one.after, one.mean) == pytest.approx((before.mean(), after.mean(), (after - before).mean()))
    assert (one.low, one.high) == pytest.approx((low, high))


def test_the_table_names_both_baselines_and_what_lies_between_them(editions) -> None:
    found = across(editions)
    headers, [row], sides = interaction.rows(found.interactions, found.metric)
    assert len(headers) == len(row) == len(sides)
    assert (row[0], row[1], row[3], row[7]) == ("qknorm", "qk", "qk@lr: optimizer.lr 0.001 → 0.002", "4")
    assert "not corrected" in interaction.NOTE
    [told_as_json] = found.as_json()["interactions"]
    assert (told_as_json["corrected"], told_as_json["variant"]) == (False, "qknorm")


@pytest.mark.usefixtures("editions")
def test_the_command_ends_with_the_question_and_its_table(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    told = CliRunner().invoke(app, ["compare", "qk@main", "qk@lr", "--runs", str(tmp_path / "runs")])
    assert told.exit_code == 0, told.output
    assert f"\n\ndoes the effect change\n{interaction.NOTE}\n" in told.stdout
    assert told.stdout.count("qk@lr:unrun") == 1


def test_an_arm_says_in_what_it_differs_beside_its_own_change(editions) -> None:
    found = across(editions)
    headers, rows, _ = found.rows()
    also = [row[headers.index("also differs in")] for row in rows]
    assert also == ["", "", "optimizer.lr 0.001 → 0.002", "optimizer.lr 0.001 → 0.002"]
    text = dict(told(found))
    assert text["also"] == "qk@lr:baseline and qk@lr:qknorm: Δ is also of optimizer.lr 0.001 → 0.002"
    assert text["never ran"] == "qk:unrun and qk@lr:unrun"
    assert found.as_json()["arms"][3]["also_differs"] == {"optimizer.lr": ("0.001", "0.002")}


def test_two_changes_of_one_name_or_one_baseline_are_no_interaction(editions) -> None:
    first, second = editions
    assert across([first, first]).interactions == ()
    [base, norm] = second.arms
    other = replace(norm, changes={"model.qk_norm": ["none", "layer"]})
    assert across([first, replace(second, arms=(base, other))]).interactions == ()


def test_one_seed_in_common_gives_a_figure_and_no_interval(editions) -> None:
    first, second = editions
    few = tuple(replace(arm, outcomes=arm.outcomes[:1]) for arm in second.arms)
    [one] = across([first, replace(second, arms=few)]).interactions
    assert (one.mean, len(one.seeds)) == (pytest.approx((2.39 - 2.40) - (2.28 - 2.31)), 1)
    assert one.as_json()["low"] is None
