"""Factored second moments."""

import torch

from labkit.optim.factored import inverse_roots, rms, row_and_column_means


def test_a_square_of_rank_one_is_recovered_from_its_means() -> None:
    rows, columns = torch.rand(5, 1, dtype=torch.float64) + 0.1, torch.rand(1, 7, dtype=torch.float64) + 0.1
    row, column = inverse_roots(row_and_column_means(rows * columns))
    assert (row.shape, column.shape) == ((5, 1), (1, 7))
    torch.testing.assert_close(row * column, (rows * columns).rsqrt())


def test_a_vector_is_not_factored() -> None:
    square = torch.rand(6) + 0.1
    (inverse,) = inverse_roots(row_and_column_means(square))
    torch.testing.assert_close(inverse, square.rsqrt())


def test_each_matrix_of_a_stack_stands_for_itself() -> None:
    stack = torch.rand(2, 3, 4) + 0.1
    for stacked, *apart in zip(
        inverse_roots(row_and_column_means(stack)),
        *(inverse_roots(row_and_column_means(matrix)) for matrix in stack),
        strict=True,
    ):
        torch.testing.assert_close(stacked, torch.stack(apart))
    torch.testing.assert_close(rms(stack).flatten(), torch.stack([rms(matrix) for matrix in stack]).flatten())


def test_rows_without_gradient_among_large_ones_stay_finite() -> None:
    gradient = torch.full((3, 4), 100.0)
    gradient[1] = 0.0
    for inverse in inverse_roots(row_and_column_means(gradient.square() + 1e-30)):
        gradient = gradient * inverse
    assert gradient.isfinite().all()
    assert torch.equal(gradient[1], torch.zeros(4))


def test_the_rms_of_a_single_number_is_its_size() -> None:
    assert rms(torch.tensor(-3.0)) == 3.0
