"""Newton-Schulz against the singular value decomposition."""

import pytest
import torch
from torch import Tensor

from labkit.optim.orthogonal import orthogonalized

JORDAN = (3.4445, -4.775, 2.0315)
SHAPES = [(6, 6), (4, 9), (9, 4), (1, 5), (3, 4, 7), (2, 3, 8, 5)]


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("iterations", [1, 5])
def test_every_singular_value_goes_through_the_polynomial(shape: tuple[int, ...], iterations: int) -> None:
    x = drawn(*shape)
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    s = s / s.norm(dim=-1, keepdim=True)
    for _ in range(iterations):
        s = JORDAN[0] * s + JORDAN[1] * s**3 + JORDAN[2] * s**5
    found = orthogonalized(x, JORDAN, iterations, torch.float64)
    torch.testing.assert_close(found, u * s[..., None, :] @ vh, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_converging_polynomial_ends_at_the_nearest_orthogonal_matrix(shape: tuple[int, ...]) -> None:
    u, _, vh = torch.linalg.svd(drawn(*shape), full_matrices=False)
    found = orthogonalized(drawn(*shape), (1.875, -1.25, 0.375), 40, torch.float64)
    torch.testing.assert_close(found, u @ vh, rtol=1e-9, atol=1e-9)


def test_products_are_made_in_the_given_precision_and_come_back_in_that_of_the_matrix() -> None:
    x = drawn(32, 48).float()
    exact, rough = (orthogonalized(x, JORDAN, 5, dtype) for dtype in (torch.float32, torch.bfloat16))
    assert (exact.dtype, rough.dtype) == (torch.float32, torch.float32)
    assert torch.equal(rough, rough.bfloat16().float())
    assert 0 < (rough - exact).norm() / exact.norm() < 0.05


def test_the_matrix_that_came_in_is_left_alone() -> None:
    x = drawn(5, 3)
    before = x.clone()
    orthogonalized(x, JORDAN, 5, torch.float64)
    assert torch.equal(x, before)


def test_nothing_stays_nothing() -> None:
    assert torch.equal(orthogonalized(torch.zeros(3, 4), JORDAN, 5, torch.bfloat16), torch.zeros(3, 4))
