"""Attention against torch's MultiheadAttention, and grouped heads against repeated ones."""

import pytest
import torch
from torch import nn

from labkit.components.attention import Attention, Gqa, Mha, Mqa, SelfAttention
from labkit.components.parameters import draw, logical
from labkit.components.place import Place
from labkit.components.position import NoPosition, Rope

PLACE = Place(0, 1, 8)


def built(spec: Attention, dropout: float = 0.0, position=None) -> SelfAttention:
    module = spec.build(16, PLACE, position or NoPosition(), dropout)
    draw(module, 0, scale=lambda part: 0.3)
    return module.double()


@pytest.mark.parametrize("has_bias", [False, True])
def test_mha_is_that_of_torch(has_bias: bool) -> None:
    ours = built(Mha(n_heads=4, bias=has_bias, output_bias=has_bias))
    oracle = nn.MultiheadAttention(16, 4, bias=has_bias, batch_first=True).double()
    with torch.no_grad():
        for name, view in logical(ours).items():
            if name.endswith("bias"):
                view.normal_()
        oracle.in_proj_weight.copy_(ours.qkv.weight)
        oracle.out_proj.weight.copy_(ours.output.weight)
        if has_bias:
            oracle.in_proj_bias.copy_(ours.qkv.bias)
            oracle.out_proj.bias.copy_(ours.output.bias)
    x = torch.randn(2, 8, 16, dtype=torch.float64)
    mask = nn.Transformer.generate_square_subsequent_mask(8, dtype=torch.float64)
    expected, _ = oracle(x, x, x, attn_mask=mask, need_weights=False)
    torch.testing.assert_close(ours(x), expected)


@pytest.mark.parametrize("spec", [Gqa(n_heads=4, n_kv_heads=2), Mqa(n_heads=4)])
def test_shared_heads_equal_repeated_ones(spec: Attention) -> None:
    grouped, full = built(spec, position=Rope()), built(Mha(n_heads=4), position=Rope())
    here, there = logical(grouped), logical(full)
    for name in ("query.weight", "output.weight"):
        there[name].copy_(here[name])
    for name in ("key.weight", "value.weight"):
        heads = here[name].unflatten(0, (spec.kv_heads, 4))
        there[name].copy_(heads.repeat_interleave(4 // spec.kv_heads, 0).flatten(0, 1))
    x = torch.randn(2, 8, 16, dtype=torch.float64)
    torch.testing.assert_close(grouped(x), full(x))


@pytest.mark.parametrize("spec", [Mha(n_heads=4), Gqa(n_heads=4, n_kv_heads=2)])
def test_the_path_with_dropout_computes_the_same_attention(spec: Attention) -> None:
    module = built(spec, dropout=1e-9)
    x = torch.randn(2, 8, 16, dtype=torch.float64)
    torch.testing.assert_close(module.train()(x), module.eval()(x), rtol=1e-6, atol=1e-6)


def test_a_head_may_have_a_size_of_its_own() -> None:
    module = built(Mha(n_heads=3, head_dim=10))
    assert {name: tuple(view.shape) for name, view in logical(module).items()} == {
        "query.weight": (30, 16),
        "key.weight": (30, 16),
        "value.weight": (30, 16),
        "output.weight": (16, 30),
    }
    assert module(torch.randn(1, 8, 16, dtype=torch.float64)).shape == (1, 8, 16)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (Mha(n_heads=3), "n_heads 3 does not divide d_model 16"),
        (Gqa(n_heads=4, n_kv_heads=3), "n_kv_heads 3 does not divide n_heads 4"),
        (Gqa(n_heads=4, n_kv_heads=8), "n_kv_heads 8 does not divide n_heads 4"),
    ],
)
def test_heads_that_do_not_fit_are_named_with_both_numbers(spec: Attention, words: str) -> None:
    assert words in (spec.fault(16) or "")
