"""Held against the definitions of top-k and top-p, written out."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from labkit.generate.sampling import Sampling, chosen
from labkit.spec import Mistake

LOGITS = st.lists(st.floats(-6, 6), min_size=1, max_size=12)


def softmax(logits: list[float]) -> list[float]:
    top = max(logits)
    exponentials = [math.exp(logit - top) for logit in logits]
    return [each / sum(exponentials) for each in exponentials]


def of_set(odds: list[float], kept: set[int]) -> list[float]:
    total = sum(odds[index] for index in kept)
    return [odds[index] / total if index in kept else 0.0 for index in range(len(odds))]


def nucleus(odds: list[float], p: float) -> set[int]:
    """The smallest set of most probable tokens whose probability reaches p."""
    kept: set[int] = set()
    for index in sorted(range(len(odds)), key=lambda index: (-odds[index], index)):
        if kept and math.fsum(odds[each] for each in kept) >= p:
            break
        kept.add(index)
    return kept


def found(sampling: Sampling, logits: list[float]) -> list[float]:
    return sampling.probabilities(torch.tensor([logits], dtype=torch.float64))[0].tolist()


@settings(deadline=None, derandomize=True, database=None)
@given(LOGITS, st.integers(1, 14), st.floats(0.01, 1), st.floats(0.1, 3))
def test_the_filters_are_their_definitions_one_after_the_other(logits, k, p, temperature) -> None:
    odds = softmax([logit / temperature for logit in logits])
    best = sorted(range(len(odds)), key=lambda index: (-logits[index] / temperature, index))[:k]
    odds = of_set(odds, set(best))
    sums = [math.fsum(sorted(odds, reverse=True)[:n]) for n in range(1, len(odds) + 1)]
    if p < 1 and any(abs(p - reached) < 1e-12 for reached in sums):
        return
    expected = of_set(odds, nucleus(odds, p)) if p < 1 else odds
    sampling = Sampling(temperature=temperature, top_k=k, top_p=p)
    assert found(sampling, logits) == pytest.approx(expected, abs=1e-12)


def test_equal_logits_leave_exactly_k_tokens() -> None:
    assert found(Sampling(top_k=2), [1.0, 1.0, 1.0, 1.0]) == [0.5, 0.5, 0, 0]


def test_a_nucleus_has_always_one_token() -> None:
    assert found(Sampling(top_p=1e-9), [0.0, 3.0, 1.0]) == [0, 1, 0]


def test_the_set_whose_probability_is_just_p_is_enough() -> None:
    assert found(Sampling(top_p=0.5), [0.0, 0.0]) == [1, 0]


def test_greedy_takes_the_first_of_the_most_probable() -> None:
    assert found(Sampling(temperature=0), [0.0, 2.0, 2.0]) == [0, 1, 0]


def test_a_temperature_near_zero_is_greedy() -> None:
    assert found(Sampling(temperature=1e-37), [0.0, 2.0, 1.999]) == [0, 1, 0]


@settings(deadline=None, derandomize=True, database=None)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.3, 1.0]), min_size=1, max_size=9).filter(any), st.floats(0, 1))
def test_a_draw_falls_into_the_share_of_the_token_chosen(odds, draw) -> None:
    index = chosen(torch.tensor(odds, dtype=torch.float64), draw)
    assert odds[index] > 0
    total = sum(odds)
    assert sum(odds[:index]) - 1e-9 <= draw * total <= sum(odds[: index + 1]) + 1e-9


def test_draws_are_uniform_and_belong_to_seed_and_prompt() -> None:
    draw = Sampling(seed=1).draws((1, 2))
    numbers = torch.tensor([draw() for _ in range(2000)])
    assert numbers.mean().item() == pytest.approx(0.5, abs=0.03)
    assert (numbers.min() >= 0) & (numbers.max() < 1)
    first = [Sampling(seed=seed).draws(prompt)() for seed, prompt in ((1, (1, 2)), (2, (1, 2)), (1, (1, 3)))]
    assert first[0] == numbers[0]
    assert len(set(first)) == 3


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(Mistake, match="not finite"):
        found(Sampling(), [0.0, bad])


@pytest.mark.parametrize(
    "fields",
    [{"tokens": 0}, {"temperature": -1.0}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.1}, {"seed": -1}],
    ids=str,
)
def test_what_is_no_choice_is_refused(fields) -> None:
    with pytest.raises(ValidationError, match=next(iter(fields))):
        Sampling(**fields)
