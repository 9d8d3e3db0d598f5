"""Schedules against their closed forms."""

import math

import pytest

from labkit.optim.schedule import Constant, Cosine, InverseSqrt, Linear, Schedule, Wsd, length
from labkit.spec import Mistake, ValidationError

EVERY = [Constant(), Linear(), Cosine(), InverseSqrt(), Wsd(), Wsd(shape="sqrt")]


@pytest.mark.parametrize("schedule", EVERY, ids=lambda schedule: schedule.label)
def test_a_schedule_without_warmup_starts_at_the_full_rate_and_stays_within_it(schedule: Schedule) -> None:
    factors = [schedule.factor(step, 100) for step in range(100)]
    assert factors[0] == 1.0
    assert all(0 < factor <= 1 for factor in factors)


@pytest.mark.parametrize("schedule", EVERY, ids=lambda schedule: schedule.label)
def test_warmup_rises_linearly_to_the_full_rate(schedule: Schedule) -> None:
    warm = schedule.patched({"warmup": 4})
    assert [warm.factor(step, 40) for step in range(5)] == [0.2, 0.4, 0.6, 0.8, 1.0]


@pytest.mark.parametrize(
    ("warmup", "steps", "expected"), [(0.05, 100, 5), (0.999, 100, 100), (1, 100, 1), (30, 100, 30)]
)
def test_a_duration_below_one_is_a_share_of_the_steps(warmup: float, steps: int, expected: int) -> None:
    assert length(warmup, steps) == expected


def test_cosine_is_half_way_down_in_the_middle() -> None:
    schedule = Cosine(warmup=10, final=0.2)
    assert schedule.factor(60, 110) == pytest.approx(0.6)
    assert schedule.factor(35, 110) == pytest.approx(0.2 + 0.8 * (1 + math.cos(math.pi / 4)) / 2)


def test_linear_would_reach_its_final_ratio_one_step_after_the_last() -> None:
    schedule = Linear(final=0.1)
    assert schedule.factor(99, 100) == pytest.approx(0.1 + 0.9 / 100)


def test_wsd_decays_only_in_its_last_part() -> None:
    schedule = Wsd(warmup=0.1, decay=0.2, final=0.5)
    factors = [schedule.factor(step, 100) for step in range(100)]
    assert factors[10:81] == [1.0] * 71
    assert factors[90] == pytest.approx(0.75)
    assert factors[99] == pytest.approx(0.5 + 0.5 / 20)


def test_wsd_counts_its_decay_in_steps_from_one_on() -> None:
    schedule = Wsd(decay=10)
    assert schedule.factor(90, 100) == 1.0
    assert schedule.factor(95, 100) == pytest.approx(0.5)


def test_the_square_root_of_wsd_falls_fast_and_then_slowly() -> None:
    schedule = Wsd(decay=0.16, final=0.1, shape="sqrt")
    factors = [schedule.factor(step, 100) for step in range(100)]
    assert factors[:85] == [1.0] * 85
    assert factors[84:] == pytest.approx([1 - 0.9 * math.sqrt(passed / 16) for passed in range(16)], rel=1e-12)


def test_the_inverse_square_root_is_that_of_the_paper_relative_to_its_peak() -> None:
    schedule, warmup = InverseSqrt(warmup=39), 40
    paper = [min(number**-0.5, number * warmup**-1.5) for number in range(1, 1001)]
    factors = [schedule.factor(step, 1000) for step in range(1000)]
    assert factors == pytest.approx([rate * math.sqrt(warmup) for rate in paper], rel=1e-12)
    assert factors.index(max(factors)) == 39


def test_the_inverse_square_root_does_not_depend_on_how_many_steps_there_are() -> None:
    schedule = InverseSqrt(warmup=10)
    assert schedule.factor(50, 60) == schedule.factor(50, 1000)


def test_constant_never_falls() -> None:
    assert {Constant().factor(step, 7) for step in range(7)} == {1.0}


def test_a_single_step_is_never_at_rate_zero() -> None:
    assert all(schedule.patched({"warmup": 0.02}).factor(0, 1) > 0 for schedule in EVERY)


@pytest.mark.parametrize(
    ("schedule", "steps", "told"),
    [
        (Cosine(warmup=200), 100, "200 steps of warm-up do not fit into 100 steps; write at most 99, or a share: 0.05"),
        (
            Cosine(warmup=0.999),
            20,
            "0.999 of the steps: 20 steps of warm-up do not fit into 20 steps; write a smaller share: 0.05",
        ),
    ],
)
def test_a_warmup_that_does_not_fit_is_refused_with_what_was_written(schedule: Schedule, steps: int, told: str) -> None:
    with pytest.raises(Mistake) as raised:
        schedule.check(steps)
    assert str(raised.value) == f"schedule.warmup: {told}"


def test_a_decay_that_overlaps_the_warmup_is_refused_with_what_was_written() -> None:
    with pytest.raises(Mistake) as raised:
        Wsd(warmup=0.6, decay=50).check(100)
    assert str(raised.value) == (
        "schedule.decay: warmup 0.6 and decay 50: 60 steps of warm-up leave 40 of 100 for 50 of decay; "
        "write at most 40, or shares: warmup 0.05 and decay 0.2"
    )


@pytest.mark.parametrize("fields", [{"warmup": -0.1}, {"warmup": 1.5}, {"final": 1.1}])
def test_durations_and_ratios_out_of_range_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Cosine(**fields)
