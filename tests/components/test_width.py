"""The same model at another width."""

from fractions import Fraction

import pytest

from labkit.components.mla import Mla
from labkit.components.moe import Moe
from labkit.components.width import Axis, resized
from labkit.spec import Mistake
from tests.specs import SMALL

MODEL = SMALL.patched(
    {"d_model": 64, "n_layers": 4, "feedforward": {"kind": "swiglu", "multiple_of": 16}, "init": "normal"}
)
MORE = {"parametrization": {"kind": "mup", "heads": "more"}}


@pytest.mark.parametrize("width", [16, 64, 96, 512])
def test_a_wider_model_has_the_same_layers_with_larger_heads(width: int) -> None:
    wider = MODEL.at_width(width)
    assert wider == MODEL.patched({"d_model": width, "feedforward.multiple_of": width // 4})
    assert wider.feedforward.hidden(width) * 64 == MODEL.feedforward.hidden(64) * width
    assert wider.at_width(64) == MODEL


def test_or_more_heads_of_the_same_size() -> None:
    wider = MODEL.patched({**MORE, "attention.head_dim": 32}).at_width(128)
    assert (wider.attention.n_heads, wider.attention.kv_heads, wider.attention.head_dim) == (8, 4, 32)


def test_sizes_given_by_hand_grow_along_their_own_axis_however_deep_they_lie() -> None:
    mla = Mla(n_heads=4, head_dim=12, kv_rank=6, q_rank=10, rope_dim=2, value_dim=8)
    assert dict(resized(mla, Fraction(5, 2), {Axis.WIDTH})) == {"kv_rank": 15, "q_rank": 25}
    assert dict(resized(mla, Fraction(5, 2), {Axis.HEAD})) == {"head_dim": 30, "rope_dim": 5, "value_dim": 20}
    assert dict(resized(mla, Fraction(5, 2), {Axis.HEADS})) == {"n_heads": 10}
    moe = Moe(n_experts=3, top_k=1, expert={"kind": "gelu", "d_ff": 8})
    assert dict(resized(moe, Fraction(2), {Axis.WIDTH})) == {"expert.d_ff": 16, "expert.multiple_of": 16}


def test_so_do_those_of_layers_that_differ() -> None:
    pattern = ({}, {"attention.head_dim": 8, "position": "none"}, {"feedforward": {"kind": "gelu", "d_ff": 48}})
    wider = MODEL.patched({"pattern": pattern}).at_width(128)
    assert [layer.attention.width_of_head(128) for layer in wider.layers] == [32, 16, 32, 32]
    assert [layer.feedforward.hidden(128) for layer in wider.layers] == [352, 352, 96, 352]
    assert [layer.position.label for layer in wider.layers] == ["rope", "none", "rope", "rope"]


@pytest.mark.parametrize(
    ("changes", "width", "told"),
    [
        ({}, 70, ["model at d_model 70: feedforward.multiple_of 16 times 35/32 is no whole number"]),
        ({"feedforward.multiple_of": 64}, 10, ["model at d_model 10", "n_heads 4 does not divide d_model 10"]),
        (MORE, 48, ["model at d_model 48: attention.n_kv_heads 2 times 3/4 is no"]),
        ({"pattern": ({"attention.head_dim": 6},)}, 80, ["model at d_model 80", "head_dim 6 times 5/4 is no whole"]),
        ({}, 2**21, ["model at d_model 2097152: d_model"]),
    ],
)
def test_a_width_that_a_model_cannot_have_is_refused(changes: dict[str, object], width: int, told: list[str]) -> None:
    spec = MODEL.patched(changes)
    spec = spec.patched({"feedforward.multiple_of": 32}) if width in (10, 80) else spec
    with pytest.raises(Mistake) as refused:
        spec.at_width(width)
    assert all(part in str(refused.value) for part in told), refused.value
