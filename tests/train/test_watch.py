"""When training counts as diverged."""

import math

from labkit.train.reading import Reading
from labkit.train.watch import Watch


def reading(step: int, loss: float, frozen: bool = False) -> Reading:
    return Reading(step, loss, 1.0, frozen, 0.1)


def first_divergence(watch: Watch, losses: list[float], start: int = 1) -> int | None:
    return next((n for n, loss in enumerate(losses, start) if watch.sees_divergence(reading(n, loss))), None)


def test_a_falling_or_level_loss_is_no_divergence() -> None:
    assert first_divergence(Watch(warmup=0), [5.5] * 60 + [4.0] * 60) is None
    assert first_divergence(Watch(warmup=0), [5.0] + [5.5] * 100) is None


def test_a_mean_of_fifty_steps_above_the_start_is_one() -> None:
    assert first_divergence(Watch(warmup=0), [5.0] + [5.505] * 100) == 51
    assert first_divergence(Watch(warmup=0), [5.0] * 100 + [30.0] * 40) == 125  # the 25th: half of the fifty


def test_a_spike_from_which_training_recovers_is_none() -> None:
    assert first_divergence(Watch(warmup=0), [5.0] * 9 + [53.0] * 5 + [3.0] * 100) is None
    assert first_divergence(Watch(warmup=0), [5.0] * 100 + [300.0] * 20 + [4.0] * 100) is None


def test_it_says_why() -> None:
    watch = Watch(warmup=0)
    first_divergence(watch, [5.0] + [9.0] * 49)
    assert watch.why == "50 losses of mean 8.92 stay above the initial 5.00 + 0.5"
    assert watch.sees_divergence(reading(51, math.nan, frozen=True))
    assert watch.why == "a loss or a gradient is not finite"


def test_a_warmup_is_left_alone() -> None:
    assert first_divergence(Watch(warmup=80), [5.0] + [9.0] * 100) == 81


def test_a_frozen_step_is_one_at_once() -> None:
    assert Watch(warmup=100).sees_divergence(reading(1, math.nan, frozen=True))


def test_its_memory_can_be_put_away_and_taken_up() -> None:
    watch, again = Watch(warmup=0), Watch(warmup=0)
    assert first_divergence(watch, [5.0] + [5.9] * 40) is None
    again.restore(watch.state())
    assert again.mean == watch.mean
    assert first_divergence(again, [5.9] * 20, start=42) == 50
