"""What a step's loss and norm come to."""

import math

import pytest
import torch

from labkit.kernels import using, verdict

CASES = [(2.0, 3.0, 0.0), (2.0, 0.5, 0.0), (2.0, 0.5, 1.0), (math.nan, 3.0, 0.0), (2.0, math.inf, 0.0)]


def decided(device, which, step, clip):
    loss, norm, frozen = step
    places = {
        "frozen": torch.tensor(frozen, device=device),
        "divisor": torch.tensor(7.0, device=device),
        "values_3": torch.zeros(3, dtype=torch.float64, device=device),
    }
    with using(which):
        verdict(torch.tensor(loss, device=device), torch.tensor(norm, device=device), clip, **places)
    return places


@pytest.mark.parametrize("clip", [1.0, math.inf])
@pytest.mark.parametrize("step", CASES, ids=str)
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_one_launch_says_what_torch_does(device, step: tuple[float, float, float], clip: float) -> None:
    ours, theirs = (decided(device, which, step, clip) for which in ("triton", "torch"))
    moves = ours["frozen"] == 0
    for name in ours if moves else ("frozen", "values_3"):
        torch.testing.assert_close(ours[name], theirs[name], equal_nan=True, rtol=0, atol=0)


def test_what_is_not_finite_freezes_for_good(device) -> None:
    assert decided(device, "triton", (math.nan, 1.0, 0.0), 1.0)["frozen"] == 1
    assert decided(device, "triton", (1.0, 1.0, 1.0), 1.0)["frozen"] == 1
    assert decided(device, "triton", (1.0, 4.0, 0.0), 2.0)["divisor"] == 2
