"""Simulated experiments: how often the words are false, and whether they come as often as the formulas say."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from labkit.report.looks import LEVEL, levels
from labkit.report.model import against, family, noise
from labkit.report.power import power
from labkit.report.statistics import Difference
from labkit.report.verdicts import Rules, judged

EXPERIMENTS = 2000
MARGIN = 1.0

FALSE = 0.065
"""The most that 5 % may come to."""

EQUAL, ONE, HALF = (1, 1, 1, 1, 1), (1, 1, 1, 1, 2), (1, 2, 1, 2, 1)
"""Standard deviations, the baseline's first: 2 is four times the variance."""


def simulated(kind: str, scales: Sequence[float], seeds: int, effect: float = 0.0, entropy: int = 0) -> np.ndarray:
    """Experiments × arms × seeds of unit noise, the seeds having much in common; one variant is off by `effect`."""
    random, shape = np.random.default_rng(entropy), (EXPERIMENTS, len(scales), seeds)
    unit = random.standard_normal(shape) if kind == "normal" else random.standard_t(4, shape) / math.sqrt(2)
    y_XAS = unit * np.array(scales)[:, None] + 3 * random.standard_normal((EXPERIMENTS, 1, seeds))
    y_XAS[:, 1] += effect
    return y_XAS


def gaps(y_AS: np.ndarray, level: float = LEVEL) -> list[Difference]:
    found, whole = noise(y_AS), family(y_AS)
    return [against(y_AS, row, found, whole, level) for row in range(1, len(y_AS))]


def words(y_AS: np.ndarray, level: float = LEVEL, last: bool = True) -> list[str]:
    rules = Rules(MARGIN, last, lambda gap: None)
    return [judged(gap, rules).word for gap in gaps(y_AS, level)]


def false_words(y_XAS: np.ndarray, looks: tuple[int, ...]) -> float:
    """The share of experiments in which some variant wins or loses at some look."""
    arms = y_XAS.shape[1]
    at = list(zip(looks, levels(looks, arms - 1, arms), strict=True))
    said = [
        {word for seeds, level in at for word in words(y_AS[:, :seeds], level, seeds == looks[-1])} for y_AS in y_XAS
    ]
    return float(np.mean([bool({"win", "loss"} & word) for word in said]))


@pytest.mark.parametrize("kind", ["normal", "t4"])
@pytest.mark.parametrize("scales", [EQUAL, ONE, HALF])
@pytest.mark.parametrize("looks", [(5,), (4, 6, 10)])
def test_arms_that_do_not_differ_seldom_win_or_lose(kind: str, scales: Sequence[float], looks: tuple[int, ...]) -> None:
    assert false_words(simulated(kind, scales, looks[-1]), looks) <= FALSE


@pytest.mark.parametrize(("looks", "most"), [((10,), FALSE), ((5,), 0.085)])
def test_a_baseline_twice_as_noisy_as_its_variants_is_seen_with_ten_seeds_and_half_seen_with_five(looks, most) -> None:
    assert false_words(simulated("normal", (2, 1, 1, 1, 1), looks[-1]), looks) <= most


@pytest.mark.parametrize("kind", ["normal", "t4"])
@pytest.mark.parametrize("scales", [EQUAL, HALF])
def test_an_arm_that_is_off_by_the_margin_seldom_ties(kind: str, scales: Sequence[float]) -> None:
    tied = [words(y_AS)[0] == "tie" for y_AS in simulated(kind, np.array(scales) / 3, 5, effect=MARGIN)]
    assert np.mean(tied) <= FALSE


def test_an_arm_that_is_level_ties_once_the_noise_is_small() -> None:
    tied = [words(y_AS)[0] == "tie" for y_AS in simulated("normal", np.array(EQUAL) / 3, 5)[:500]]
    assert np.mean(tied) > 0.8


@pytest.mark.parametrize("seeds", [3, 5, 8])
def test_all_intervals_together_cover_the_truth_as_often_as_they_say(seeds: int) -> None:
    truth = (0.7, 0, 0, 0)
    covered = [
        all(gap.low <= true <= gap.high for gap, true in zip(gaps(y_AS), truth, strict=True))
        for y_AS in simulated("normal", EQUAL, seeds, effect=0.7, entropy=1)
    ]
    assert np.mean(covered) == pytest.approx(LEVEL, abs=0.015)


@pytest.mark.parametrize(("seeds", "effect"), [(4, 2.5), (5, 2.0), (8, 1.5)])
def test_a_difference_is_found_as_often_as_the_noncentral_t_says(seeds: int, effect: float) -> None:
    found = [words(y_AS)[0] == "loss" for y_AS in simulated("normal", EQUAL, seeds, effect=effect, entropy=2)]
    assert np.mean(found) == pytest.approx(power(effect, math.sqrt(2 / seeds), 4, (seeds - 1) * 4), abs=0.03)
