import math

import numpy as np
import pytest

from labkit.report import curves
from labkit.report.comparison import compare


@pytest.fixture
def arms(pair):
    return compare(pair.edition).arms


def test_a_curve_has_one_point_an_evaluation(arms) -> None:
    curve = curves.over_tokens(arms[0], "val/loss")
    assert curve.x.tolist() == [10_000.0 * point for point in range(1, 11)]
    assert curve.mean.shape == curve.low.shape == curve.high.shape == curve.x.shape


def test_the_line_is_the_mean_and_the_band_the_span_of_the_seeds(arms) -> None:
    curve = curves.over_tokens(arms[0], "val/loss")
    assert (curve.low[-1], curve.mean[-1], curve.high[-1]) == pytest.approx((1.98, 2.0, 2.02))


def test_a_diverged_run_is_a_line_of_its_own_and_no_part_of_the_mean(pair) -> None:
    run = pair.at("baseline", 1)
    run.append(110, {"val/loss": math.nan})
    run.update(status="diverged")
    baseline = compare(pair.edition).baseline
    assert curves.over_tokens(baseline, "val/loss").mean[-1] == pytest.approx(1.99)
    (line,) = curves.diverged(baseline, "val/loss")
    assert list(line)[-1] == 100_000.0


def test_runs_on_their_way_show_as_far_as_all_have_come(synthetic) -> None:
    experiment = synthetic()
    experiment.arm("baseline")
    for seed, steps in enumerate((30, 70)):
        run = experiment.run("baseline", seed, status="running", points=0)
        for step in range(10, steps + 1, 10):
            run.append(step, {"val/loss": 5.0 - step / 100})
    experiment.run("baseline", 2, status="planned", points=0)
    assert curves.over_tokens(compare(experiment.edition).baseline, "val/loss").x[-1] == 30_000.0


def test_smoothing_keeps_a_straight_line_and_calms_noise(synthetic) -> None:
    experiment = synthetic()
    experiment.arm("baseline")
    straight, noisy = experiment.run("baseline", 0, points=0), np.random.default_rng(0).normal(size=200)
    for step in range(200):
        straight.append(step, {"line": 3.0 * step, "noise": noisy[step]})
    baseline = compare(experiment.edition).baseline
    line = curves.over_tokens(baseline, "line", window=0.1).mean
    assert line[:190] == pytest.approx(3.0 * np.arange(190))
    assert curves.over_tokens(baseline, "noise", window=0.1).mean[20:].std() < 0.4 * noisy.std()
    assert curves.over_tokens(baseline, "noise").mean == pytest.approx(noisy)


def test_a_bin_of_positions_stands_at_its_geometric_middle(arms) -> None:
    curve = curves.by_position(arms[0])
    assert curve.x == pytest.approx([1.0, math.sqrt(2 * 3), math.sqrt(4 * 7), math.sqrt(8 * 16)])
    assert curve.mean == pytest.approx([4.0, 3.0, 2.5, 2.2])


def test_the_difference_by_position_is_paired_by_seed(pair) -> None:
    pair.at("baseline", 0).update(by_position={"edges": [1, 2, 4], "loss": [4.0, 3.0]})
    pair.at("1e5", 0).update(by_position={"edges": [1, 2, 4], "loss": [3.5, 3.25]})
    for seed in (1, 2):
        pair.at("baseline", seed).update(status="failed")
    baseline, variant, _ = compare(pair.edition).arms
    assert curves.by_position(variant, baseline).mean == pytest.approx([-0.5, 0.25])


def test_the_training_length_is_compared_on_the_text_of_the_longer_ones(pair) -> None:
    """The curve is measured on the same windows as the longer contexts; the final loss is of the whole split."""
    for seed in range(3):
        pair.run("baseline", seed, loss=2.0).update(final={"val/loss": 1.7, "val/loss_x1": 2.0, "val/loss_x2": 2.3})
    curve = curves.beyond(compare(pair.edition).baseline)
    assert (curve.x.tolist(), curve.mean.tolist()) == ([1.0, 2.0], [2.0, 2.3])


def test_a_longer_context_is_compared_on_the_same_targets_by_their_place(pair) -> None:
    for seed, gap in enumerate((0.1, 0.2, 0.3)):
        losses = {"1": [4.0, 3.0, 3.0], "2": [4.0, 3.0, 3.5], "4": [4.0, 3.0, 3.0 - gap]}
        pair.at("baseline", seed).update(beyond={"edges": [1, 2, 4, 8], "loss": losses})
    curve = curves.longer(compare(pair.edition).baseline)
    assert curve.x == pytest.approx([1.0, math.sqrt(2 * 3), math.sqrt(4 * 8)])
    assert curve.mean == pytest.approx([0.0, 0.0, -0.2])
    assert (curve.low[-1], curve.high[-1]) == pytest.approx((-0.3, -0.1))


def test_an_arm_without_runs_has_empty_curves(synthetic) -> None:
    experiment = synthetic()
    experiment.arm("baseline")
    baseline = compare(experiment.edition).baseline
    for curve in (curves.over_tokens(baseline, "val/loss"), curves.by_position(baseline), curves.beyond(baseline)):
        assert curve.x.size == 0
