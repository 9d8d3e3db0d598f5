"""Digests: nothing about tensors may differ unseen."""

import pytest
import torch

from labkit.train import alike
from labkit.train.alike import digest

ONE = {"a": torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]), "b": torch.tensor([True, False])}
A, B = ONE["a"], ONE["b"]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of several chunks."""
    monkeypatch.setattr(alike, "AT_ONCE", 2)


def test_equal_tensors_have_one_text_however_they_lie() -> None:
    assert digest(ONE) == digest({"a": torch.stack((A, A), dim=1)[:, 0], "b": B.clone()})


@pytest.mark.parametrize(
    "other",
    [
        {"a": A.index_put((torch.tensor(4),), torch.nextafter(A[4], A[0])), "b": B},
        {"a": A[[1, 0, 2, 3, 4]], "b": B},
        {"a": A[[2, 3, 0, 1, 4]], "b": B},
        {"a": A[[2, 1, 0, 3, 4]], "b": B},
        {"a": A.view(1, 5), "b": B},
        {"a": A, "b": B.to(torch.uint8)},
        {"a": A, "c": B},
        {"b": B, "a": A},
        {"a": A},
        {},
    ],
)
def test_any_other_have_another(other: dict[str, torch.Tensor]) -> None:
    assert digest(other) != digest(ONE)


@pytest.mark.parametrize("value", [torch.tensor(1.0), torch.zeros(0), torch.tensor([1j]).conj()])
def test_every_shape_and_type_has_one(value: torch.Tensor) -> None:
    assert digest({"a": value}) == digest({"a": value.clone()}) != digest({"a": torch.stack((value, value))})
