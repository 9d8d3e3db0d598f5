"""Counting: what an arm costs, before it runs."""

from pathlib import Path

import pytest

from labkit.spec import Mistake
from labkit.study.counting import Counted, counted
from labkit.study.experiment import Arm
from labkit.study.loading import load


@pytest.fixture
def base(project: Path) -> Counted:
    return counted(load(project / "experiments" / "theta.py").experiment.arms[0], project)


def arm(base: Counted, changes: dict[str, object]) -> Counted:
    return counted(Arm("mine", base.arm.spec.patched(changes), changes), Path())


def test_an_arm_is_counted_before_it_runs(base: Counted) -> None:
    assert base.steps == 20
    assert base.tokens == 20 * 4 * 32
    assert base.flops == base.tokens * base.costs.flops_per_token
    assert base.costs.params == 257 * 16 + 3 * 16 + 4 * 16 * 16 + 3 * 16 * 48


def test_a_schedule_longer_than_the_budget_is_refused_by_the_arm(base: Counted) -> None:
    with pytest.raises(Mistake, match=r"variant 'mine': schedule\.warmup: 30 steps of warm-up do not fit into 20"):
        arm(base, {"schedule.warmup": 30})
