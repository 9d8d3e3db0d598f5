"""What the kernels are held against computes what the components compute."""

import math
from typing import Any

import pytest
import torch

from labkit.components.bias import NoBias, SlopeBias
from labkit.components.mixing import Mixing, SinkSoftmax, Softmax
from labkit.kernels import Scores
from labkit.kernels.attention import attention_reference

SLOPES = [0.5, 0.25, 0.125, 0.0625]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"window": 5},
        {"softcap": 2.0},
        {"sinks": torch.tensor([1.0, -2.0, 0.5, 3.0])},
        {"slopes": torch.tensor(SLOPES)},
        {"window": 5, "softcap": 2.0, "sinks": torch.ones(4), "slopes": torch.tensor(SLOPES)},
    ],
    ids=str,
)
def test_attention(options: dict[str, Any]) -> None:
    scores = Scores(0.3, **options)
    mixing = Mixing(
        (4, 2),
        (16, 24),
        scale=0.3,
        softcap=scores.softcap or math.inf,
        window=scores.window or math.inf,
        softmax=Softmax() if scores.sinks is None else SinkSoftmax(4),
        bias=NoBias() if scores.slopes is None else SlopeBias(SLOPES),
        dropout=0.0,
    )
    if scores.sinks is not None:
        mixing.load_state_dict({"softmax.sink": scores.sinks})
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 11, 4, 16), torch.randn(2, 11, 2, 16), torch.randn(2, 11, 2, 24)
    expected = mixing.reference(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), 0).transpose(1, 2)
    torch.testing.assert_close(attention_reference(q, k, v, scores), expected)
