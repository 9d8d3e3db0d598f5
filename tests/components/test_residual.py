"""Where the norms stand, against the formulas written out."""

import pytest
import torch
from torch import nn

from labkit.components.norm import Rms
from labkit.components.place import Place
from labkit.components.residual import Branches, Post, Pre, Residual, Stream

PLACE = Place(0, 1, 8)


@pytest.fixture
def branches() -> Branches:
    norms = Rms().build(16, PLACE), Rms().build(16, PLACE)
    return Branches(norms, nn.Linear(16, 16), nn.Linear(16, 16), dropout=0.0)


def through(residual: Residual, branches: Branches, x: torch.Tensor) -> torch.Tensor:
    stream = Stream(x)
    residual.flow(branches, stream)
    return sum(stream.pending, stream.value)


def test_pre_adds_the_branch_of_the_norm(branches: Branches) -> None:
    x = torch.randn(2, 3, 16)
    y = x + branches.attention(branches.attention_norm(x))
    torch.testing.assert_close(through(Pre(), branches, x), y + branches.feedforward(branches.feedforward_norm(y)))


def test_post_norms_the_sum(branches: Branches) -> None:
    x = torch.randn(2, 3, 16)
    y = branches.attention_norm(x + branches.attention(x))
    torch.testing.assert_close(through(Post(), branches, x), branches.feedforward_norm(y + branches.feedforward(y)))


def test_any_module_serves_as_a_norm() -> None:
    stream = Stream(torch.ones(4), torch.ones(4))
    (normed,) = stream.normed(nn.Identity())
    assert (stream.value.tolist(), normed.tolist(), stream.pending) == ([2.0] * 4, [2.0] * 4, ())
