"""The learning rates of a step, by the schedule: of each group of the optimizer, its own peak rate times a factor."""

from collections.abc import Sequence

import torch
from torch import Tensor

from labkit.optim.stepper import Stepper


class Rates:
    """Numbers of the host. `step_1` holds the number of the step, counted from 0."""

    def __init__(self, optimizer: Stepper, factors: Sequence[float], step_1: Tensor) -> None:
        self.groups, self.step_1 = optimizer.param_groups, step_1
        self.table = [[group["lr"] * factor for factor in factors] for group in self.groups]

    def set(self) -> None:
        """Give the groups the rates of the step at hand."""
        step = int(self.step_1)
        for group, rates in zip(self.groups, self.table, strict=True):
            group["lr"] = rates[step]


class DeviceRates(Rates):
    """Numbers of a GPU, where the number of the step is as well: the host has no part in it."""

    def __init__(self, optimizer: Stepper, factors: Sequence[float], step_1: Tensor) -> None:
        super().__init__(optimizer, factors, step_1)
        self.table_GS = torch.tensor(self.table, device=step_1.device)
        self.now_G1 = self.table_GS[:, :1].clone()
        for group, rate in zip(self.groups, self.now_G1.squeeze(1), strict=True):
            group["lr"] = rate

    def set(self) -> None:
        torch.index_select(self.table_GS, 1, self.step_1, out=self.now_G1)


def rates_on(device: torch.device, optimizer: Stepper, factors: Sequence[float], step_1: Tensor) -> Rates:
    """The rates of a device."""
    return (DeviceRates if device.type == "cuda" else Rates)(optimizer, factors, step_1)
