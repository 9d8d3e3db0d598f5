"""The learning rates of a step."""

import pytest
import torch

from labkit.optim.stepper import Stepper
from labkit.train.rates import DeviceRates, Rates

FACTORS = [0.25, 1.0, 0.5]


def stepper() -> Stepper:
    named = [("a", torch.ones(2))], [("b", torch.ones(3))]
    return Stepper([{"params": named[0], "lr": 0.02}, {"params": named[1]}], {"lr": 0.004})


def test_each_group_has_its_own_rate_times_the_factor_of_the_step() -> None:
    optimizer, step_1 = stepper(), torch.zeros(1, dtype=torch.int64)
    rates = Rates(optimizer, FACTORS, step_1)
    for step, factor in enumerate(FACTORS):
        step_1.fill_(step)
        rates.set()
        assert [group["lr"] for group in optimizer.param_groups] == [0.02 * factor, 0.004 * factor]


def test_the_devices_rates_are_the_hosts_in_tensors_that_stay_in_place() -> None:
    optimizer, step_1 = stepper(), torch.zeros(1, dtype=torch.int64)
    rates = DeviceRates(optimizer, FACTORS, step_1)
    places = [group["lr"].data_ptr() for group in optimizer.param_groups]
    for step, factor in enumerate(FACTORS):
        step_1.fill_(step)
        rates.set()
        assert [group["lr"].item() for group in optimizer.param_groups] == pytest.approx(
            [0.02 * factor, 0.004 * factor]
        )
    assert [group["lr"].data_ptr() for group in optimizer.param_groups] == places
