"""Activations and gated units."""

import pytest
import torch

from labkit.kernels.activation import REFERENCES, activation, activation_reference
from labkit.kernels.glu import glu, glu_reference


@pytest.mark.parametrize("kind", REFERENCES)
def test_an_activation_and_its_gradient_are_those_of_float64(device, dtype, agree, kind: str) -> None:
    x = 3 * torch.randn(3, 70, device=device, dtype=dtype)
    agree(lambda x: activation(x, kind), lambda x: activation_reference(x, kind), x)


@pytest.mark.parametrize("kind", REFERENCES)
@pytest.mark.parametrize("width", [8, 200])
def test_a_gated_unit_and_its_gradient_are_those_of_float64(device, dtype, agree, kind: str, width: int) -> None:
    packed = 2 * torch.randn(3, 5, 2 * width, device=device, dtype=dtype)
    agree(lambda x: glu(x, kind), lambda x: glu_reference(x, kind), packed)


@pytest.mark.parametrize("kind", ["silu", "gelu"])
@pytest.mark.parametrize("shape", [(4096, 768), (999, 2048), (100, 8192), (64, 5464), (70_000, 96), (1, 11)])
def test_it_holds_at_the_sizes_of_real_models(cuda, dtype, agree, kind: str, shape) -> None:
    packed = torch.randn(shape[0], 2 * shape[1], device=cuda, dtype=dtype)
    agree(lambda x: glu(x, kind), lambda x: glu_reference(x, kind), packed)
    agree(lambda x: activation(x, kind), lambda x: activation_reference(x, kind), packed)


@pytest.mark.parametrize("kind", REFERENCES)
@pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning")  # of the interpreter's numpy
def test_far_from_zero_it_is_still_finite(device, kind: str) -> None:
    x = torch.tensor([-1e4, -100.0, -30.0, -0.0, 0.0, 30.0, 100.0, 1e4], device=device, requires_grad=True)
    y = activation(x, kind)
    (dx,) = torch.autograd.grad(y.sum(), x)
    exact = x.detach().double().requires_grad_()
    wanted = activation_reference(exact, kind)
    torch.testing.assert_close(y, wanted.float())
    torch.testing.assert_close(dx, torch.autograd.grad(wanted.sum(), exact)[0].float())


def test_strided_inputs_and_gradients_of_stride_zero(device, agree, near) -> None:
    wide = torch.randn(6, 3, 40, device=device)
    for x in (wide[:, :, 8:24], wide[:, 1], wide.transpose(0, 1), wide.transpose(1, 2)[:, :, :2]):
        agree(lambda x: glu(x, "silu"), lambda x: glu_reference(x, "silu"), x)
        agree(lambda x: activation(x, "gelu"), lambda x: activation_reference(x, "gelu"), x)
    leaf, exact = wide.clone().requires_grad_(), wide.double().requires_grad_()
    (glu(leaf, "silu").sum() + activation(leaf, "relu2").sum()).backward()
    (glu_reference(exact, "silu").sum() + activation_reference(exact, "relu2").sum()).backward()
    near(leaf.grad, exact.grad)


def test_nothing_is_still_nothing(device) -> None:
    assert glu(torch.empty(0, 16, device=device), "silu").shape == (0, 8)
    assert activation(torch.empty(3, 0, device=device), "gelu").shape == (3, 0)


def test_a_second_derivative_is_refused(device) -> None:
    x = torch.randn(2, 8, device=device, requires_grad=True)
    for call in (glu, activation):
        with pytest.raises(RuntimeError, match="differentiable once"):
            torch.autograd.grad(call(x, "silu").sum(), x, create_graph=True)


def test_offsets_beyond_31_bits(cuda, near) -> None:
    packed = torch.empty(2**31 // 8192 + 16, 8192, device=cuda, dtype=torch.bfloat16).normal_()
    for call, reference in ((glu, glu_reference), (activation, activation_reference)):
        x = packed.requires_grad_()
        y = call(x, "silu")
        (dx,) = torch.autograd.grad(y, x, y.detach())
        tail = packed[-16:].detach().double().requires_grad_()
        exact = reference(tail, "silu")
        near(y[-16:], exact)
        near(dx[-16:], torch.autograd.grad(exact, tail, y[-16:].detach().double())[0], slack=2)
        del y, dx
