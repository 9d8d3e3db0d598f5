"""Where the kernels are tried: in Triton's interpreter on a CPU, compiled on a GPU; and how near they must come."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from labkit.kernels.launch import using

TOLERANCES = {
    ("cpu", torch.float32): 2e-6,
    ("cpu", torch.float16): 5e-4,
    ("cpu", torch.bfloat16): 8e-3,  # the interpreter cuts off where a GPU rounds
    ("cuda", torch.float32): 2e-6,
    ("cuda", torch.float16): 5e-4,
    ("cuda", torch.bfloat16): 4e-3,
}
"""Of ‖out - reference‖ / ‖reference‖ against float64 on the same inputs: about twice the rounding of one result."""

Function = Callable[..., Tensor | tuple[Tensor, ...]]


@pytest.fixture(params=[pytest.param("cuda", marks=pytest.mark.gpu)] if torch.cuda.is_available() else ["cpu"])
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """Where kernels run; every call inside the test takes them."""
    torch.manual_seed(0)
    with using("triton"):
        yield torch.device(request.param)


@pytest.fixture
def cuda(device: torch.device) -> torch.device:
    """For what the interpreter cannot show, or not in reasonable time."""
    if device.type == "cpu":
        pytest.skip("there is no CUDA device")
    return device


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture
def near() -> Callable[..., None]:
    """Asserts that what one precision gave is near to what float64 gives."""

    def check(found: Tensor, exact: Tensor, slack: float = 1.0) -> None:
        assert found.shape == exact.shape
        error = (found.double() - exact).norm() / exact.norm().clamp(min=1e-30)
        assert error <= slack * TOLERANCES[found.device.type, found.dtype], f"{error:.1e} in {found.dtype}"

    return check


@pytest.fixture
def agree(near: Callable[..., None]) -> Callable[..., None]:
    """Asserts that a function and its gradients are near to a reference in float64 on the same inputs."""

    def check(function: Function, reference: Function, *inputs: Tensor, slack: float = 1.0) -> None:
        leaves = [tensor.detach().requires_grad_() for tensor in inputs]
        exact_leaves = [tensor.detach().double().requires_grad_() for tensor in inputs]
        outputs, exact_outputs = tuple_of(function(*leaves)), tuple_of(reference(*exact_leaves))
        upstream = [torch.randn_like(output) for output in outputs]
        gradients = torch.autograd.grad(outputs, leaves, upstream)
        exact = torch.autograd.grad(exact_outputs, exact_leaves, [gradient.double() for gradient in upstream])
        for found, wanted in zip((*outputs, *gradients), (*exact_outputs, *exact), strict=True):
            near(found, wanted, slack)

    return check


def tuple_of(outputs: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)
