"""What a residual is worth: the published laws, by hand."""

import math

import pytest

from labkit.study.scaling import LAWS


def test_a_tenth_of_a_per_cent_of_ten_million_parameters_is_worth_the_derivative() -> None:
    n = 10e6
    slope = 0.34 * 406.4 * n**-1.34
    assert LAWS["params"].worth(n, 1.001 * n) == pytest.approx(slope * 0.001 * n, rel=1e-3)
    assert LAWS["params"].worth(n, 1.001 * n) == pytest.approx(0.000576, rel=1e-2)
    assert LAWS["active_params"].worth(n, 0.9 * n) == LAWS["params"].worth(0.9 * n, n) > 0


def test_without_embeddings_the_law_is_kaplans() -> None:
    assert LAWS["non_embedding"].loss(8.8e13) == 1
    assert LAWS["non_embedding"].worth(1e7, 1.01e7) == pytest.approx(0.076 * 8.8e6**0.076 * 0.01, rel=1e-2)


def test_the_law_of_compute_is_the_best_split_of_it() -> None:
    c = 1e18
    splits = [10 ** (4 + 0.001 * step) for step in range(8000)]
    best = min(1.69 + 406.4 / n**0.34 + 410.7 / (c / 6 / n) ** 0.28 for n in splits)
    assert LAWS["flops"].loss(c) == pytest.approx(best, abs=1e-6)
    exponent = math.log((LAWS["flops"].loss(1e18) - 1.69) / (LAWS["flops"].loss(1e20) - 1.69)) / math.log(100)
    assert exponent == pytest.approx(0.34 * 0.28 / 0.62)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_each_law_names_its_paper(law) -> None:
    assert "arXiv:" in str(law)
