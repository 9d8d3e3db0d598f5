"""Every attention with every position: the last tokens with the earlier keys give what the whole sequence does."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from labkit.components.attention import Attention
from labkit.components.differential import Differential
from labkit.components.gather import AttentionModule
from labkit.components.mla import Mla
from labkit.components.parameters import draw
from labkit.components.place import Place
from labkit.components.position import Position

PLACE = Place(1, 2, 8)
ATTENTIONS: list[dict[str, Any]] = [
    {"kind": "mha", "n_heads": 4},
    {"kind": "gqa", "n_heads": 4, "n_kv_heads": 2, "window": 3, "qk_norm": "rms", "gate": "head"},
    {"kind": "mqa", "n_heads": 4, "softcap": 1.0, "sinks": True},
    {"kind": "mla", "n_heads": 2, "q_rank": 6},
    {"kind": "differential", "n_heads": 2, "window": 9},
]
POSITIONS: list[dict[str, Any]] = [
    {"kind": "none"},
    {"kind": "rope", "scaling": {"kind": "yarn", "factor": 2.0}},
    {"kind": "alibi"},
    {"kind": "t5", "buckets": 4, "max_distance": 6},
    {"kind": "sinusoidal"},
    {"kind": "learned"},
]


class Layer(nn.Module):
    """A position and an attention, which can go on from kept keys and values."""

    def __init__(self, attention: dict[str, Any], position: dict[str, Any]) -> None:
        super().__init__()
        where: Position = Position._resolve(position)
        spec: Attention = Attention._resolve(attention)
        self.position = where.build(16, PLACE)
        self.attention: AttentionModule = spec.build(16, PLACE, where, 0.0)
        draw(self, 0, scale=lambda part: 0.4)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.attention(self.position(x_BTD))

    def piecewise(self, x_BTD: Tensor, *cuts: int) -> Tensor:
        kept, out, start = None, [], 0
        for end in (*cuts, x_BTD.shape[1]):
            heads = self.attention.heads(self.position(x_BTD[:, start:end], start), start)
            if kept is not None:
                heads = heads._replace(k=torch.cat((kept.k, heads.k), 2), v=torch.cat((kept.v, heads.v), 2))
            out.append(self.attention.gather(heads, start))
            kept, start = heads, end
        return torch.cat(out, 1)


def test_no_attention_and_no_position_is_left_out() -> None:
    assert {spec["kind"] for spec in ATTENTIONS} == set(Attention.variants)
    assert {spec["kind"] for spec in POSITIONS} == set(Position.variants)
    assert {Mla, Differential} < set(Attention.variants.values())


@pytest.mark.parametrize(
    ("attention", "position"),
    list(itertools.product(ATTENTIONS, POSITIONS)),
    ids=[f"{a['kind']}-{p['kind']}" for a, p in itertools.product(ATTENTIONS, POSITIONS)],
)
def test_a_sequence_in_pieces_equals_the_whole_also_beyond_the_training_length(attention, position) -> None:
    layer = Layer(attention, position).double()
    length = 8 if position["kind"] == "learned" else 20
    x = torch.randn(2, length, 16, dtype=torch.float64)
    whole = layer(x)
    torch.testing.assert_close(layer.piecewise(x, 5, 6, 7), whole)
    torch.testing.assert_close(layer.piecewise(x, *range(1, length)), whole)
