"""All that the attention benchmark compares computes the same."""

import pytest
import torch

from labkit.bench.attention import Shape, contenders, measured, optional

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
SMALL = Shape(2, 256, 4, 2, 64)


def test_peers_compute_what_labkit_computes() -> None:
    ours, *theirs = ((contender.name, contender.both()) for contender in contenders(SMALL, ["cudnn", "flash"]))
    q, k, v = ours[1][1].unflatten(-1, (-1, 64)).split((4, 2, 2), 2)
    for name, found in theirs:
        for mine, other in zip((ours[1][0].unflatten(-1, (-1, 64)), q, k, v), found, strict=True):
            error = (mine - other.transpose(1, 2)).float().norm() / mine.float().norm()
            assert error < 1e-2, name


def test_every_option_is_measured_and_repeats() -> None:
    for contender in optional(SMALL):
        row = measured(SMALL, contender)
        assert row.differing == 0
        assert 0 < row.forward < row.both
