"""Scores, masks and softmax against the formula written out query by query in float64."""

import math
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from labkit.components.attention import Gqa
from labkit.components.dropout import place_sites
from labkit.components.mixing import Mixing
from labkit.components.place import Place
from labkit.components.position import T5, Alibi, NoPosition, Position

PLACE = Place(0, 1, 8)
OPTIONS: list[tuple[dict[str, Any], Position]] = [
    ({}, NoPosition()),
    ({"window": 3}, NoPosition()),
    ({"window": 100}, NoPosition()),
    ({"softcap": 0.7}, NoPosition()),
    ({"sinks": True}, NoPosition()),
    ({"scale": "inverse"}, NoPosition()),
    ({"scale": "fixed", "scale.value": 0.3, "window": 1}, NoPosition()),
    ({}, Alibi()),
    ({}, T5(buckets=4, max_distance=5)),
    ({"window": 3, "softcap": 0.7, "sinks": True, "scale": "inverse"}, Alibi()),
]


def built(options: dict[str, Any], position: Position, features: tuple[int, int] = (8, 8), dropout=0.0) -> Mixing:
    spec = Gqa(n_heads=4, n_kv_heads=2).patched(options)
    module = spec.mixing(features, PLACE, position, dropout)
    for stored in module.parameters():
        torch.nn.init.normal_(stored)
    return module.double().eval()


def heads(length: int, features: tuple[int, int] = (8, 8)) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(length)
    shapes = (2, 4, length, features[0]), (2, 2, length, features[0]), (2, 2, length, features[1])
    q, k, v = (torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes)
    return q, k, v


@torch.no_grad()
def written_out(module: Mixing, options: dict[str, Any], q, k, v) -> torch.Tensor:
    """For each query: exp(score) of every key that it sees, over their sum and that of the sink."""
    d, length = q.shape[-1], q.shape[2]
    scale = {"root": 1 / math.sqrt(d), "inverse": 1 / d, "fixed": 0.3}[options.get("scale", "root")]
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=torch.float64)
    for row in range(q.shape[0]):
        for head in range(q.shape[1]):
            for i in range(length):
                total, gathered = 0.0, torch.zeros(v.shape[-1], dtype=torch.float64)
                if options.get("sinks"):
                    total = math.exp(module.softmax.sink[head])
                for j in range(max(0, i - options.get("window", length) + 1), i + 1):
                    score = scale * float(q[row, head, i] @ k[row, head // 2, j])
                    if "softcap" in options:
                        score = options["softcap"] * math.tanh(score / options["softcap"])
                    score += float(module.bias(torch.tensor([[i - j]])).expand(4, 1, 1)[head])
                    total += math.exp(score)
                    gathered += math.exp(score) * v[row, head // 2, j]
                out[row, head, i] = gathered / total
    return out


@pytest.mark.parametrize(("options", "position"), OPTIONS)
@pytest.mark.parametrize("features", [(8, 8), (6, 4)])
def test_it_is_its_formula(options: dict[str, Any], position: Position, features: tuple[int, int]) -> None:
    module, (q, k, v) = built(options, position, features), heads(9, features)
    torch.testing.assert_close(module(q, k, v), written_out(module, options, q, k, v))


@pytest.mark.parametrize(("options", "position"), OPTIONS)
@pytest.mark.parametrize("length", [1, 2, 8, 40])
def test_the_last_queries_with_the_earlier_keys_give_what_all_do(options, position: Position, length: int) -> None:
    module, (q, k, v) = built(options, position), heads(length)
    whole = module(q, k, v)
    for start in {0, length // 2, length - 1}:
        torch.testing.assert_close(module(q[:, :, start:], k, v, start), whole[:, :, start:])


@pytest.mark.parametrize("options", [{}, {"window": 3}, {"scale": "inverse"}])
@pytest.mark.parametrize("offset", [0, 5])
def test_torchs_fused_attention_equals_the_reference(options: dict[str, Any], offset: int) -> None:
    module, (q, k, v) = built(options, NoPosition()), heads(12)
    assert module.is_plain
    inputs = [x.requires_grad_() for x in (q[:, :, offset:].clone(), k, v)]
    gradients = []
    for path in (module.fused, module.reference):
        out = path(*inputs, offset)
        gradients.append((out, *torch.autograd.grad(out.square().sum(), inputs)))
    for here, there in zip(*gradients, strict=True):
        torch.testing.assert_close(here, there)


def test_without_options_it_can_run_in_flash_attention() -> None:
    module, (q, k, v) = built({}, NoPosition()), heads(16)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        assert module(q.float(), k.float(), v.float()).shape == (2, 4, 16, 8)


@pytest.mark.parametrize(("options", "position"), OPTIONS)
def test_the_future_does_not_change_the_past(options: dict[str, Any], position: Position) -> None:
    module, (q, k, v) = built(options, position), heads(12)
    changed = [torch.cat((x[:, :, :6], torch.randn_like(x[:, :, 6:])), 2) for x in (q, k, v)]
    torch.testing.assert_close(module(q, k, v)[:, :, :6], module(*changed)[:, :, :6])


def test_a_window_forgets_what_lies_before_it() -> None:
    module, (q, k, v) = built({"window": 4}, NoPosition()), heads(12)
    changed = [torch.cat((torch.randn_like(x[:, :, :2]), x[:, :, 2:]), 2) for x in (k, v)]
    torch.testing.assert_close(module(q, k, v)[:, :, 5:], module(q, *changed)[:, :, 5:])
    assert not torch.allclose(module(q, k, v)[:, :, 4], module(q, *changed)[:, :, 4])


@pytest.mark.parametrize(("options", "position"), OPTIONS)
def test_dropout_drops_shares_of_the_weights(options: dict[str, Any], position: Position) -> None:
    module, (q, k, _) = built(options, position, (8, 9), dropout=0.5), heads(9)
    place_sites(torch.nn.ModuleDict({"attention": module}), torch.tensor((0, 1, 0)))
    weights = torch.eye(9, dtype=torch.float64).expand(2, 2, 9, 9)  # values that show the weights themselves
    kept, dropped = module(q, k, weights), module.train()(q, k, weights)
    assert ((dropped == 0) | torch.isclose(dropped, 2 * kept)).all()
    assert 0.3 < (dropped[kept > 0] == 0).double().mean() < 0.7


def test_bf16_scores_are_taken_to_fp32_before_the_softmax() -> None:
    module, (q, k, v) = built({"softcap": 30.0}, NoPosition()), heads(16)
    low = [x.bfloat16() for x in (q, k, v)]
    exact = module(*(x.double() for x in low))
    out = module(*low)
    assert out.dtype == torch.bfloat16
    assert (out.double() - exact).norm() / exact.norm() < 2**-7


def test_flops_count_the_half_or_the_band_that_is_seen() -> None:
    length, features = 64, (8, 6)
    q, k, v = heads(length, features)
    with FlopCounterMode(display=False) as counter:
        built({"softcap": 1.0}, NoPosition(), features)(q, k, v)
    whole_square = counter.get_total_flops() // (2 * length)
    assert built({}, NoPosition(), features).flops(length) == whole_square // 2
    seen = sum(min(i + 1, 16) for i in range(length)) / length**2
    assert built({"window": 16}, NoPosition(), features).flops(length) == pytest.approx(whole_square * seen, rel=0.04)
    assert built({"window": 100}, NoPosition(), features).flops(length) == whole_square // 2
