"""The rotary kernel against float64, in Triton's interpreter or on a GPU."""

from typing import Any

import pytest
import torch
from torch import Tensor

from labkit.kernels import Rotation, rope
from labkit.kernels.rope import rope_reference, turn

pytestmark = pytest.mark.usefixtures("device")

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
TOLERANCES = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 5e-3}
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not HAS_GPU, reason="there is no CUDA device")]
dtypes = pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
layouts = pytest.mark.parametrize("interleaved", [False, True], ids=["half", "interleaved"])


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE, dtype)


def rotation(length: int, rotated: int, interleaved: bool) -> Rotation:
    angles = torch.outer(torch.arange(length), 100.0 ** (-torch.arange(0, rotated, 2) / rotated))
    return Rotation((1.3 * angles.cos()).to(DEVICE), (1.3 * angles.sin()).to(DEVICE), interleaved)


def exact(turned: Rotation) -> Rotation:
    return Rotation(turned.cos.double(), turned.sin.double(), turned.interleaved)


def error(found: Tensor, true: Tensor) -> float:
    found, true = found.detach().double(), true.detach().double()
    return float((found - true).norm() / true.norm())


@pytest.mark.parametrize("rotated", [2, 12, 16, 24])
@layouts
@dtypes
def test_rotated_features_and_their_gradient_are_those_of_float64(
    dtype: torch.dtype, interleaved: bool, rotated: int
) -> None:
    x, turned = draw(2, 7, 3, 24, dtype=dtype).requires_grad_(), rotation(7, rotated, interleaved)
    out = rope(x, turned)
    upcast = x.detach().double().requires_grad_()
    true = rope_reference(upcast, exact(turned))
    dout = draw(2, 7, 3, 24, dtype=dtype)
    assert error(out, true) < TOLERANCES[dtype]
    assert (
        error(torch.autograd.grad(out, x, dout)[0], torch.autograd.grad(true, upcast, dout.double())[0])
        < TOLERANCES[dtype]
    )
    assert torch.equal(out[..., rotated:], x[..., rotated:])


@layouts
def test_turning_in_place_touches_nothing_else(interleaved: bool) -> None:
    whole, turned = draw(2, 7, 6, 16, dtype=torch.float16), rotation(7, 8, interleaved)
    before = whole.clone()
    some = whole[:, :, 1:4]
    turn(some, some, turned)
    assert torch.equal(some, rope(before[:, :, 1:4], turned))
    for untouched in (slice(0, 1), slice(4, 6)):
        assert torch.equal(whole[:, :, untouched], before[:, :, untouched])


def test_turning_back_undoes_a_rotation() -> None:
    x = draw(2, 9, 3, 16)
    turned = rotation(9, 16, False)
    unit = Rotation(turned.cos / 1.3, turned.sin / 1.3)
    there, back = torch.empty_like(x), torch.empty_like(x)
    turn(x, there, unit)
    turn(there, back, unit, back=True)
    torch.testing.assert_close(back, x)


@pytest.mark.parametrize("shape", [(1, 1, 1, 16), (2, 65, 5, 16), (1, 3, 130, 16)], ids=str)
def test_any_length_and_number_of_heads(shape: tuple[int, ...]) -> None:
    turned = rotation(shape[1], 16, False)
    x = draw(*shape)
    assert error(rope(x, turned), rope_reference(x.double(), exact(turned))) < 1e-6


def test_heads_first_and_an_upstream_gradient_without_strides() -> None:
    x, turned = draw(2, 3, 7, 16).transpose(1, 2).requires_grad_(), rotation(7, 16, True)
    upcast = x.detach().double().requires_grad_()
    (found,) = torch.autograd.grad(rope(x, turned).sum(), x)
    (true,) = torch.autograd.grad(rope_reference(upcast, exact(turned)).sum(), upcast)
    assert error(found, true) < 1e-6


def test_a_second_derivative_fails_loudly() -> None:
    x = draw(1, 3, 2, 16).requires_grad_()
    squares = rope(x, rotation(3, 16, False)).square()
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad(squares.sum(), x, create_graph=True)


@pytest.mark.parametrize("x", [torch.zeros(2, 0, 3, 16), torch.ones(2, 3, 3, 16).double()], ids=["empty", "float64"])
def test_what_the_kernel_cannot_rotate_goes_to_the_reference(x: Any) -> None:
    turned = rotation(x.shape[1], 16, False)
    assert torch.equal(rope(x.to(DEVICE), turned), rope_reference(x.to(DEVICE), turned))
