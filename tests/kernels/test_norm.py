"""RMSNorm and LayerNorm, alone and with the residual sum."""

import math

import pytest
import torch

from labkit.kernels.launch import using
from labkit.kernels.norm import add_layer_norm, add_rms_norm, layer_norm, rms_norm, rms_norm_reference

EPS = 1e-5


def taken(call):
    """The same call by the reference, as for float64."""

    def reference(*tensors):
        with using("torch"):
            return call(*tensors)

    return reference


CALLS = {
    "bare": (lambda x: rms_norm(x, eps=EPS), 0),
    "llama": (lambda x, g: rms_norm(x, g, eps=EPS), 1),
    "gemma": (lambda x, g: rms_norm(x, g, eps=EPS, casting="gemma"), 1),
    "layer": (lambda x, g, b: layer_norm(x, g, b, eps=EPS), 2),
    "layer without bias": (lambda x, g: layer_norm(x, g, eps=EPS), 1),
    "layer without gain": (lambda x: layer_norm(x, eps=EPS), 0),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("shape", [(2, 3, 16), (5, 48), (1, 7)])
def test_a_norm_and_its_gradients_are_those_of_float64(device, dtype, agree, call: str, shape) -> None:
    function, n_vectors = CALLS[call]
    x = 2 * torch.randn(shape, device=device, dtype=dtype) + 0.5
    vectors = [torch.randn(shape[-1], device=device).to(dtype).float() for _ in range(n_vectors)]
    agree(function, taken(function), x, *vectors, slack=2 if call == "llama" else 1)


@pytest.mark.parametrize("shape", [(300, 64), (33, 768), (70, 1000), (40, 4096), (3, 16384), (70_000, 64)])
@pytest.mark.parametrize("call", ["llama", "layer"])
def test_it_holds_at_the_sizes_of_real_models(cuda, dtype, agree, call: str, shape) -> None:
    test_a_norm_and_its_gradients_are_those_of_float64(cuda, dtype, agree, call, shape)


ADDED = {
    "llama": lambda uses: lambda g, b, *parts: add_rms_norm(*parts, gain=g, eps=EPS, uses=uses),
    "gemma": lambda uses: lambda g, b, *parts: add_rms_norm(*parts, gain=g, eps=EPS, casting="gemma", uses=uses),
    "layer": lambda uses: lambda g, b, *parts: add_layer_norm(*parts, gain=g, bias=b, eps=EPS, uses=uses),
}


@pytest.mark.parametrize("call", ADDED)
@pytest.mark.parametrize(("n_parts", "uses"), [(1, 1), (2, 1), (3, 2), (4, 1), (6, 3)])
def test_the_sum_and_its_norm_carry_both_gradients(device, agree, call: str, n_parts: int, uses: int) -> None:
    function = ADDED[call](uses)
    parts = [torch.randn(3, 5, 24, device=device) for _ in range(n_parts)]
    vectors = [torch.randn(24, device=device) for _ in range(2)]
    if call != "layer":
        fixed, function = vectors.pop(), lambda g, *rest, of=function: of(g, fixed, *rest)
    agree(function, taken(function), *vectors, *parts, slack=2)


def test_the_sum_is_rounded_before_it_is_normalised(device) -> None:
    parts = [torch.randn(4, 32, device=device, dtype=torch.float16) for _ in range(3)]
    total, normed = add_rms_norm(*parts, eps=EPS)
    assert torch.equal(total, sum(part.float() for part in parts).half())
    assert torch.equal(normed, rms_norm(total, eps=EPS))


def test_llama_rounds_before_the_gain_and_gemma_after_it(device) -> None:
    x, g = torch.randn(2, 64, device=device).half(), 1.5 + torch.rand(64, device=device)
    exact = x.float() * torch.rsqrt(x.float().square().mean(1, keepdim=True) + EPS)
    llama, gemma = rms_norm(x, g, eps=EPS), rms_norm(x, g - 1, eps=EPS, casting="gemma")
    assert torch.equal(llama, exact.half() * g.half())
    assert torch.equal(gemma, (exact * (1.0 + (g - 1))).half())
    assert not torch.equal(llama, gemma)


def test_the_gain_s_gradient_is_summed_in_fp32(device, near) -> None:
    x = torch.ones(700, 16, device=device, dtype=torch.bfloat16)
    g = torch.ones(16, device=device, requires_grad=True)
    rms_norm(x, g, eps=EPS).sum().backward()
    near(g.grad, torch.full((16,), 700 / math.sqrt(1 + EPS), dtype=torch.float64, device=device))


def test_rows_of_any_strides_and_gradients_of_stride_zero(device, agree, near) -> None:
    wide = torch.randn(6, 3, 40, device=device)
    for x in (wide[:, :, 8:24], wide[:, 1], wide.transpose(0, 1), wide.transpose(1, 2), wide[:, :1].expand(6, 4, 40)):
        agree(CALLS["bare"][0], taken(CALLS["bare"][0]), x)
    leaf = wide.clone().requires_grad_()
    rms_norm(leaf, eps=EPS).sum().backward()
    exact = wide.double().requires_grad_()
    taken(CALLS["bare"][0])(exact).sum().backward()
    near(leaf.grad, exact.grad, slack=2)


def test_one_row_and_no_row(device, agree) -> None:
    agree(CALLS["bare"][0], taken(CALLS["bare"][0]), torch.randn(33, device=device))
    total, normed = add_rms_norm(*torch.randn(2, 0, 8, device=device).requires_grad_(), eps=EPS)
    normed.sum().backward()
    assert total.shape == normed.shape == (0, 8)


def test_the_same_tensor_twice_counts_twice(device, near) -> None:
    x = torch.randn(3, 8, device=device, requires_grad=True)
    total, _ = add_rms_norm(x, x, eps=EPS)
    total.sum().backward()
    assert torch.equal(total, 2 * x)
    near(x.grad, torch.full((3, 8), 2.0, dtype=torch.float64, device=device))


def test_a_gradient_that_comes_in_is_never_written_to(device) -> None:
    parts = [torch.randn(3, 8, device=device, requires_grad=True) for _ in range(2)]
    total, normed = add_rms_norm(*parts, eps=EPS)
    upstream = [torch.randn(3, 8, device=device) for _ in range(2)]
    before = [gradient.clone() for gradient in upstream]
    first, second = torch.autograd.grad((total, normed), parts, upstream)
    assert torch.equal(first, second)
    assert all(map(torch.equal, upstream, before))


@pytest.mark.parametrize("used", [0, 1])
def test_either_result_may_go_unused(device, near, used: int) -> None:
    parts, exact = (list(torch.randn(2, 4, 8, device=device, dtype=torch.float64)) for _ in range(2))
    exact = [part.requires_grad_() for part in parts]
    parts = [part.detach().float().requires_grad_() for part in parts]
    weight = torch.randn(4, 8, device=device)
    (add_layer_norm(*parts, eps=EPS)[used] * weight).sum().backward()
    with using("torch"):
        (add_layer_norm(*exact, eps=EPS)[used] * weight).sum().backward()
    near(parts[0].grad, exact[0].grad, slack=2)


def test_the_same_call_gives_the_same_bits(device) -> None:
    size = (32 * 1024, 768) if device.type == "cuda" else (9, 24)
    x = torch.randn(size, device=device, dtype=torch.bfloat16, requires_grad=True)
    g, upstream = torch.randn(size[1], device=device, requires_grad=True), torch.randn_like(x)
    runs = [torch.autograd.grad(rms_norm(x, g, eps=EPS), (x, g), upstream) for _ in range(3)]
    assert all(map(torch.equal, runs[0], runs[1]))
    assert all(map(torch.equal, runs[0], runs[2]))


def test_a_second_derivative_is_refused(device) -> None:
    x = torch.randn(2, 8, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad(rms_norm(x, eps=EPS).sum(), x, create_graph=True)


def test_what_the_kernel_does_not_take_the_reference_does(device) -> None:
    rows = torch.randn(2, 20_000, device=device)
    assert torch.equal(rms_norm(rows, eps=EPS), rms_norm_reference(rows, None, eps=EPS))
    mixed = add_rms_norm(torch.randn(3, 8, device=device), torch.ones(8, device=device).bfloat16(), eps=EPS)
    assert mixed[0].dtype == torch.float32
    double = torch.randn(2, 8, device=device, dtype=torch.float64)
    assert layer_norm(double, eps=EPS).dtype == torch.float64


def test_offsets_beyond_31_bits(cuda, near) -> None:
    x = torch.empty(2**31 // 1024 + 64, 1024, device=cuda, dtype=torch.bfloat16).normal_().requires_grad_()
    y = rms_norm(x, eps=EPS)
    (dx,) = torch.autograd.grad(y, x, x.detach())
    tail = x[-64:].detach().double().requires_grad_()
    exact = rms_norm_reference(tail, None, eps=EPS)
    near(y[-64:], exact)
    near(dx[-64:], torch.autograd.grad(exact, tail, tail.detach())[0], slack=100)


def test_a_new_number_of_rows_compiles_nothing(cuda) -> None:
    compiled = []
    x = torch.randn(4096, 512, device=cuda)
    knobs = pytest.importorskip("triton").knobs.runtime

    def once(rows: int) -> None:
        part = x[:rows].detach().requires_grad_()
        rms_norm(part, eps=EPS).sum().backward()

    once(128)
    knobs.jit_post_compile_hook = lambda **about: compiled.append(about)
    try:
        for rows in (1, 2, 100, 129, 4096):
            once(rows)
    finally:
        knobs.jit_post_compile_hook = None
    assert not compiled
