"""Attention against torch's MultiheadAttention, grouped heads against repeated ones, and its options."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
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
    "options",
    [
        {"window": 3, "softcap": 20.0, "sinks": True, "scale": "inverse"},
        {"qk_norm": "rms", "gate": "element"},
        {"qk_norm": "layer", "qk_norm_over": "all_heads", "gate": "head", "bias": True},
        {"key_bias": True, "output_bias": True},
    ],
)
def test_options_leave_the_initial_values_as_they_were(options: dict[str, Any]) -> None:
    plain, changed = (logical(built(Gqa(n_heads=4, n_kv_heads=2).patched(change))) for change in ({}, options))
    assert list(plain) == ["query.weight", "key.weight", "value.weight", "output.weight"]
    for name, value in plain.items():
        assert torch.equal(changed[name], value), name


@pytest.mark.parametrize(
    ("spec", "biased"),
    [
        (Mha(n_heads=2, bias=True), ["query", "key", "value"]),
        (Mha(n_heads=2, bias=True, key_bias=False), ["query", "value"]),
        (Mha(n_heads=2, key_bias=True, gate="head"), ["key"]),
        (Mha(n_heads=2, query_bias=True, value_bias=True, output_bias=True), ["query", "value", "output"]),
    ],
)
def test_each_bias_is_added_to_its_own_product(spec: Attention, biased: list[str]) -> None:
    module = built(spec)
    views = logical(module)
    assert [name.removesuffix(".bias") for name in views if name.endswith("bias")] == biased
    for name in biased:
        views[f"{name}.bias"].normal_()
    x = torch.randn(2, 8, 16, dtype=torch.float64)
    found = module.heads(x)
    for name, heads in zip(("query", "key", "value"), found, strict=False):
        expected = F.linear(x, views[f"{name}.weight"], views.get(f"{name}.bias"))
        torch.testing.assert_close(heads.transpose(1, 2).flatten(2), expected)
    if spec.gate.kind == "head":
        torch.testing.assert_close(found.gate, x @ views["gate.weight"].T)


def normed(x_BTHd: torch.Tensor, norm: str, over: str, gain: torch.Tensor) -> torch.Tensor:
    y = x_BTHd if over == "head" else x_BTHd.flatten(2)
    y = y - y.mean(-1, keepdim=True) if norm == "layer" else y
    y = y / (y.square().mean(-1, keepdim=True) + {"layer": 1e-5, "rms": 1e-6}[norm]).sqrt() * gain
    return y.view_as(x_BTHd)


@pytest.mark.parametrize("over", ["head", "all_heads"])
@pytest.mark.parametrize("place", ["before_position", "after_position"])
@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_queries_and_keys_are_normalised_where_the_spec_says(over: str, place: str, norm: str) -> None:
    spec = Gqa(n_heads=4, n_kv_heads=2, qk_norm=norm, qk_norm_over=over, qk_norm_place=place)
    module = built(spec, position=Rope())
    views = logical(module)
    x, rotary = torch.randn(2, 8, 16, dtype=torch.float64), Rope().rotary(4, PLACE)
    for name, n_heads in (("query", 4), ("key", 2)):
        gain = views[f"qk_norm.{name}.gain"].normal_()
        assert gain.shape == ((4,) if over == "head" else (4 * n_heads,))
        heads = module.heads(x).q if name == "query" else module.heads(x).k
        expected = (x @ views[f"{name}.weight"].T).unflatten(-1, (n_heads, 4))
        if place == "before_position":
            expected = rotary(normed(expected, norm, over, gain))
        else:
            expected = normed(rotary(expected), norm, over, gain)
        torch.testing.assert_close(heads.transpose(1, 2), expected)


@pytest.mark.parametrize("kind", ["head", "element"])
def test_a_gate_scales_what_was_gathered_before_the_output_projection(kind: str) -> None:
    gated, plain = built(Mha(n_heads=4, gate=kind)), built(Mha(n_heads=4))
    x = torch.randn(2, 8, 16, dtype=torch.float64)
    gathered = plain.mix(plain.heads(x), 0).transpose(1, 2)
    gates = torch.sigmoid(x @ logical(gated)["gate.weight"].T)
    assert gates.shape[-1] == {"head": 4, "element": 16}[kind]
    expected = gathered * gates.unflatten(-1, (4, -1))
    torch.testing.assert_close(gated(x), expected.flatten(2) @ logical(gated)["output.weight"].T)


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
