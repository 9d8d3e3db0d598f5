"""Multi-head latent attention against the equations of DeepSeek-V2, head by head in float64."""

import math

import pytest
import torch

from labkit.components.mla import LatentAttention, Mla
from labkit.components.norm import NoNorm
from labkit.components.parameters import draw, logical
from labkit.components.place import Place
from labkit.components.position import Alibi, NoPosition, Rope

PLACE = Place(0, 1, 8)


def built(spec: Mla, position=None) -> LatentAttention:
    module = spec.build(16, PLACE, position or Rope(), 0.0)
    draw(module, 0, scale=lambda part: 0.3)
    for name, view in logical(module).items():
        if name.endswith(("gain", "bias")):
            view.normal_()
    return module.double()


def rms(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain


@pytest.mark.parametrize("q_rank", [None, 10])
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_equations_1_to_19(q_rank: int | None, bias: bool) -> None:
    spec = Mla(n_heads=4, head_dim=6, kv_rank=12, q_rank=q_rank, rope_dim=4, value_dim=5, bias=bias)
    module, x = built(spec), torch.randn(2, 8, 16, dtype=torch.float64)
    w = logical(module)
    rotary = Rope().rotary(4, PLACE)

    def product(name: str, y: torch.Tensor) -> torch.Tensor:
        return y @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)

    q = product("query", rms(product("query_latent", x), w["query_norm.gain"]) if q_rank else x)
    q = q.unflatten(-1, (4, 10))
    c = rms(product("key_value_latent", x), w["key_value_norm.gain"])
    k_rope = rotary(product("key_rope", x)[:, :, None])[:, :, 0]
    k, v = product("key", c).unflatten(-1, (4, 6)), product("value", c).unflatten(-1, (4, 5))
    gathered = []
    for head in range(4):
        scores = q[:, :, head, :6] @ k[:, :, head].mT + rotary(q[:, :, head : head + 1, 6:])[:, :, 0] @ k_rope.mT
        future = torch.ones(8, 8, dtype=torch.bool).triu(1)
        weights = (scores / math.sqrt(6 + 4)).masked_fill(future, -torch.inf).softmax(-1)
        gathered.append(weights @ v[:, :, head])
    torch.testing.assert_close(module(x), product("output", torch.cat(gathered, -1)))


def test_sizes_are_those_of_the_paper_unless_given() -> None:
    assert {name: tuple(view.shape) for name, view in logical(built(Mla(n_heads=4))).items()} == {
        "query.weight": (4 * (4 + 2), 16),
        "key_value_latent.weight": (4 * 4, 16),
        "key_rope.weight": (2, 16),
        "key_value_norm.gain": (16,),
        "key.weight": (16, 16),
        "value.weight": (16, 16),
        "output.weight": (16, 16),
    }


def test_without_position_only_the_content_of_keys_differs_between_heads() -> None:
    module, x = built(Mla(n_heads=4), NoPosition()), torch.randn(2, 8, 16, dtype=torch.float64)
    keys = module.heads(x).k
    assert torch.equal(keys[:, 0, :, 4:], keys[:, 3, :, 4:])
    assert not torch.allclose(keys[:, 0, :, :4], keys[:, 3, :, :4])


def test_values_may_be_of_another_size_also_where_scores_are_biased() -> None:
    module = built(Mla(n_heads=4, value_dim=7, gate="element", sinks=True), Alibi())
    assert module(torch.randn(2, 8, 16, dtype=torch.float64)).shape == (2, 8, 16)
    assert logical(module)["gate.weight"].shape == (28, 16)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (Mla(n_heads=3), "n_heads 3 does not divide d_model 16"),
        (Mla(n_heads=16), "half of head_dim 1 leaves rope_dim 0"),
        (Mla(n_heads=4, qk_norm="rms"), "qk_norm rms: mla normalises its latent vectors; set latent_norm"),
    ],
)
def test_what_cannot_work_is_refused(spec: Mla, words: str) -> None:
    assert words in (spec.fault(16) or "")
    assert Mla(n_heads=4, latent_norm=NoNorm()).fault(16) is None


def test_its_positions_turn_the_rotated_features_alone() -> None:
    assert "of head_dim 3 is 3 features" in (Rope().fault(Mla(n_heads=4, rope_dim=3).width_of_head(16)) or "")
