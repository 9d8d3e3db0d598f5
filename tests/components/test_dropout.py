"""Dropout keyed by (seed, step, row, site, element)."""

import pytest
import torch
from pydantic import ValidationError
from scipy import stats

from labkit.components.dropout import Dropout, KeyedDropout, place_sites, uniform


def test_a_number_sets_all_three_rates() -> None:
    assert Dropout.model_validate(0.1) == Dropout(embedding=0.1, attention=0.1, residual=0.1)


def test_the_numbers_are_uniform_and_independent() -> None:
    u = uniform(torch.tensor((0, 1, 0)), 7, torch.Size((64, 4096)))
    assert stats.kstest(u.flatten()[::8].numpy(), "uniform").pvalue > 0.01
    assert u.double().corrcoef().fill_diagonal_(0).abs().max() < 0.09


@pytest.mark.parametrize("other", [((1, 1, 0), 7), ((0, 2, 0), 7), ((0, 1, 64), 7), ((0, 1, 0), 8)])
def test_every_part_of_the_key_counts(other: tuple[tuple[int, int, int], int]) -> None:
    shape = torch.Size((64, 64))
    same = (uniform(torch.tensor((0, 1, 0)), 7, shape) >= 0.5) == (
        uniform(torch.tensor(other[0]), other[1], shape) >= 0.5
    )
    assert 0.45 < same.float().mean() < 0.55


def test_masks_do_not_depend_on_how_the_batch_is_split() -> None:
    whole = uniform(torch.tensor((0, 1, 0)), 7, torch.Size((8, 5, 3)))
    parts = [uniform(torch.tensor((0, 1, row)), 7, torch.Size((4, 5, 3))) for row in (0, 4)]
    assert torch.equal(whole, torch.cat(parts))


def test_the_mean_is_kept_and_evaluation_changes_nothing() -> None:
    module = torch.nn.Sequential(KeyedDropout(0.25))
    place_sites(module, torch.tensor((0, 1, 0)))
    x = torch.ones(100, 1000)
    assert module(x).mean().item() == pytest.approx(1.0, abs=0.01)
    assert (module(x) == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert module.eval()(x) is x


def test_a_rate_of_one_is_refused() -> None:
    with pytest.raises(ValidationError, match="less than 1"):
        Dropout(residual=1.0)
