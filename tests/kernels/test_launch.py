"""Which path a call takes."""

import subprocess
import sys

import pytest
import torch

from labkit.kernels.launch import SETTINGS, available, rows, setting, using

WITHOUT = """
import sys
sys.modules["triton"] = None
import torch
from labkit import kernels
x = torch.randn(3, 16, requires_grad=True)
total, normed = kernels.add_rms_norm(x, x, eps=1e-6)
kernels.cross_entropy(kernels.glu(normed, "silu"), torch.arange(3)).sum().backward()
assert x.grad.isfinite().all() and not kernels.available(x)
"""


def test_without_triton_the_references_run() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_was_chosen_holds_inside_and_no_longer(device) -> None:
    x = torch.ones(3, device=device)
    assert available(x)
    with using("torch"):
        assert not available(x)
    with using("auto"):
        assert available(x) == (device.type == "cuda")
    assert available(x)


@pytest.mark.parametrize(
    "tensor",
    [torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.int64), torch.ones(0), torch.ones(3, device="meta")],
    ids=["fp64", "int64", "empty", "meta"],
)
def test_kernels_leave_other_tensors_to_the_references(device, tensor) -> None:
    moved = tensor if tensor.device.type == "meta" else tensor.to(device)
    assert not available(moved)
    assert not available(torch.ones(3, device=device), moved)


def test_rows_are_copied_only_where_strides_demand_it() -> None:
    x = torch.randn(4, 3, 10)
    assert rows(x[:, :, 2:8]).data_ptr() == x[:, :, 2:8].data_ptr()
    assert torch.equal(rows(x.mT), x.mT.reshape(-1, 3))
    assert rows(x.mT).stride(1) == rows(torch.ones(()).expand(4, 3)).stride(1) == 1


@pytest.mark.parametrize("kernel", SETTINGS)
def test_every_setting_is_one_that_compiles(kernel: str) -> None:
    for width, chosen in SETTINGS[kernel]:
        assert chosen.elements & (chosen.elements - 1) == chosen.warps & (chosen.warps - 1) == 0
        assert setting(kernel, width, 24).stages * max(chosen.elements, 1) * 24 <= max(200_000, chosen.elements * 24)
