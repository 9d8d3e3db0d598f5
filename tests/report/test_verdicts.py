import pytest

from labkit.report.statistics import Difference
from labkit.report.verdicts import Rules, judged
from labkit.report.words import shown

RULES = Rules(margin=0.005, last=True, further=lambda gap: (2, 7))


def gap(low: float, high: float, inner: float = 0.8, n: int = 5, unstable: bool = False) -> Difference:
    """A difference whose 90 % interval has a share `inner` of the width of the simultaneous one."""
    mean, half = (low + high) / 2, (high - low) / 2 * inner
    return Difference(mean, low, high, n, inner=(mean - half, mean + half), unstable=unstable)


@pytest.mark.parametrize(
    ("low", "high", "word", "negligible"),
    [
        (-0.03, -0.01, "win", False),
        (0.01, 0.03, "loss", False),
        (-0.004, -0.001, "win", True),
        (0.001, 0.004, "loss", True),
        (-0.004, 0.003, "tie", False),
        (-0.0055, 0.0055, "tie", False),
        (-0.02, 0.001, "unresolved", False),
        (-0.008, 0.0, "unresolved", False),
    ],
)
def test_the_words_follow_from_the_intervals(low: float, high: float, word: str, negligible: bool) -> None:
    verdict = judged(gap(low, high), RULES)
    assert (verdict.word, verdict.negligible) == (word, negligible)
    assert (verdict.further == (2, 7)) == (word == "unresolved")


def test_a_tie_waits_for_the_last_look_and_a_win_does_not() -> None:
    early = Rules(0.005, last=False, further=RULES.further)
    assert judged(gap(-0.004, 0.003), early).word == "unresolved"
    assert judged(gap(-0.03, -0.01), early).word == "win"


def test_what_an_imperfect_match_is_worth_has_to_be_exceeded() -> None:
    assert judged(gap(-0.03, -0.01), RULES, residual=0.009).word == "win"
    assert judged(gap(-0.03, -0.01), RULES, residual=0.011).word == "unresolved"
    assert judged(gap(-0.004, -0.001), RULES, residual=0.002).word == "unresolved"


def test_what_excludes_zero_and_is_unresolved_says_why() -> None:
    near = shown(judged(gap(-0.03, -0.01), RULES, residual=0.011))
    assert near == "unresolved: excludes 0 by less than the match is worth, 2 to 7 more seeds"
    assert shown(judged(gap(-0.03, 0.01), RULES, residual=0.011)) == "unresolved: 2 to 7 more seeds"
    over = shown(judged(gap(-0.03, -0.01), RULES, (-0.05, 0.001)))
    assert over == "unresolved: not clear over documents, which takes more text"


@pytest.mark.parametrize(
    ("second", "word"), [((-0.05, -0.001), "win"), ((-0.05, 0.001), "unresolved"), ((0.1, 0.2), "unresolved")]
)
def test_a_second_interval_has_to_agree(second: tuple[float, float], word: str) -> None:
    verdict = judged(gap(-0.03, -0.01), RULES, second)
    assert (verdict.word, bool(verdict.reason), verdict.further) == (word, word == "unresolved", None)


def test_a_second_interval_has_to_exceed_what_an_imperfect_match_is_worth_too() -> None:
    assert judged(gap(-0.03, -0.01), RULES, (-0.03, -0.004), residual=0.003).word == "win"
    assert judged(gap(-0.03, -0.01), RULES, (-0.03, -0.002), residual=0.003).word == "unresolved"


def test_a_second_interval_shows_no_tie() -> None:
    assert judged(gap(-0.004, 0.003), RULES, (-0.1, 0.1)).word == "tie"
    assert judged(gap(-0.02, 0.001), RULES, (-0.02, -0.01)).further == (2, 7)


@pytest.mark.parametrize(
    ("difference", "reason"),
    [
        (Difference(), "no pair of seeds"),
        (Difference(mean=-1.0, n=1), "one seed"),
        (Difference(mean=-1.0, n=2), "the noise is not measured"),
        (gap(-0.03, -0.01, n=4, unstable=True), "unstable, and 4 seeds are fewer than 5"),
    ],
)
def test_what_cannot_be_judged_has_no_verdict_and_says_why(difference: Difference, reason: str) -> None:
    verdict = judged(difference, RULES)
    assert (verdict.word, verdict.reason) == ("none", reason)


def test_an_unstable_arm_is_judged_once_it_has_seeds_enough() -> None:
    verdict = judged(gap(-0.03, -0.01, unstable=True), RULES)
    assert (verdict.word, verdict.unstable) == ("win", True)
