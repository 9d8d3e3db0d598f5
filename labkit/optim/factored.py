"""Second moments of a matrix as rows times columns: v̂ = r cᵀ / mean r (arXiv:1804.04235)."""

from torch import Tensor


def row_and_column_means(square: Tensor) -> dict[str, Tensor]:
    """Means over the columns and over the rows of a matrix, or of each in a stack; a vector is its own mean."""
    if square.ndim < 2:
        return {"mean": square}
    return {"row_mean": square.mean(-1, keepdim=True), "column_mean": square.mean(-2, keepdim=True)}


def inverse_roots(means: dict[str, Tensor]) -> list[Tensor]:
    """Factors of 1 / √v̂, kept apart: their product with the gradient stays finite where v̂ would round to zero."""
    if "mean" in means:
        return [means["mean"].rsqrt()]
    row, column = means["row_mean"], means["column_mean"]
    return [(row / row.mean(-2, keepdim=True)).rsqrt(), column.rsqrt()]


def rms(x: Tensor) -> Tensor:
    """Of a vector, of a matrix, or of each matrix in a stack."""
    return x.square().mean(tuple(range(-min(x.ndim, 2), 0)), keepdim=True).sqrt()
