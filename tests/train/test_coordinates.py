"""The coordinate check: what it measures, and that it tells a right parametrization from wrong ones."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from labkit.components.growth import Growth
from labkit.components.parametrization import Mup
from labkit.model import Transformer
from labkit.train.coordinates import TOLERANCE, Effort, Line, activations, lines, slope, tokens
from labkit.train.run import RunSpec

VOCABULARY, WIDTHS = 64, (64, 128, 256)
LLAMA: dict[str, Any] = {
    "d_model": 32,
    "n_layers": 2,
    "context": 32,
    "norm": "rms",
    "residual": "pre",
    "attention": {"kind": "gqa", "n_heads": 4, "n_kv_heads": 2},
    "feedforward": "swiglu",
    "position": "rope",
    "head": "untied",
    "init": {"kind": "normal", "std": 0.05},
}
GPT2 = LLAMA | {
    "norm": "layer",
    "attention": {"kind": "mha", "n_heads": 4, "bias": True, "output_bias": True},
    "feedforward": {"kind": "gelu", "bias": True},
    "position": "learned",
    "head": "tied",
    "init": {"kind": "scaled_residual", "std": 0.05},
}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adamw": {"lr": 4e-3},
    "lion": {"lr": 2e-3},
    "sgd": {"lr": 0.05},
    "adafactor": {"lr": 0.05},
    "muon": {"lr": 4e-3, "adamw": {"kind": "adamw", "lr": 4e-3}},
}


def run(model: dict[str, Any], optimizer: str = "adamw", **changes: Any) -> RunSpec:
    tree = {
        "model": model,
        "data": {},
        "tokenizer": "byte",
        "optimizer": {"kind": optimizer, **OPTIMIZERS[optimizer]},
        "schedule": "constant",
        "budget": {"kind": "steps", "steps": 1},
        "batch_size": 4,
    }
    return RunSpec.from_json(tree).patched(changes)


def measured(spec: RunSpec, parametrization: Any, steps: int = 4) -> dict[str, Line]:
    effort = Effort(steps, 1, VOCABULARY, torch.device("cpu"))
    wider = [spec.model.at_width(width).patched({"parametrization": parametrization}) for width in WIDTHS]
    found = lines([spec.patched({"model": model}) for model in wider], effort)
    return {f"{line.activation} {line.quantity}": line for line in found}


MUP = {"kind": "mup", "base_width": 64}
cases = pytest.mark.parametrize(
    ("model", "optimizer"),
    [
        pytest.param(LLAMA, "adamw", id="llama-adamw"),
        pytest.param(GPT2, "adamw", id="gpt2-adamw"),
        pytest.param(LLAMA, "sgd", id="llama-sgd"),
        pytest.param(GPT2, "sgd", id="gpt2-sgd"),
        pytest.param(LLAMA, "muon", id="llama-muon"),
        pytest.param(GPT2, "lion", id="gpt2-lion"),
        pytest.param(LLAMA, "adafactor", id="llama-adafactor"),
    ],
)


@cases
def test_nothing_grows_with_the_width_under_mup(model: dict[str, Any], optimizer: str) -> None:
    found = measured(run(model, optimizer), MUP)
    assert {name: line.slope for name, line in found.items() if not line.is_flat} == {}
    for name in ("embedding", "attention", "feed-forward", "last stream"):
        assert found[f"{name} start"].slope == pytest.approx(0.0, abs=0.15)
        assert found[f"{name} change"].slope == pytest.approx(0.0, abs=0.25), name
    for name in ("scores", "logits"):
        assert found[f"{name} start"].slope == pytest.approx(-0.5, abs=0.15)


@cases
def test_what_training_changes_grows_with_the_width_under_standard(model: dict[str, Any], optimizer: str) -> None:
    found = measured(run(model, optimizer), "standard")
    growing = {name for name, line in found.items() if line.slope > 2 * TOLERANCE}
    assert growing >= {"scores change", "feed-forward change"}
    assert found["embedding start"].is_flat


def without_rates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("labkit.optim.optimizer.entrywise", lambda part: 1.0)


def without_spread(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Growth, "spread", 1.0)


def without_multiplier(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mup, "readout", lambda self, width: nn.Identity())


def with_scores_by_the_root(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mup, "head_growth", lambda self, width: 1.0)


@pytest.mark.parametrize(
    ("mistake", "seen"),
    [
        (without_rates, "feed-forward change"),
        (without_spread, "feed-forward start"),
        (without_multiplier, "logits start"),
        (with_scores_by_the_root, "scores change"),
    ],
)
def test_every_rule_of_mup_is_missed_where_it_is_left_out(
    monkeypatch: pytest.MonkeyPatch, mistake: Any, seen: str
) -> None:
    """At a rate that lets queries and keys agree within a few steps."""
    spec = run(GPT2, **{"optimizer.lr": 1e-2, "model.init.std": 0.02})
    assert measured(spec, MUP, steps=8)[seen].slope < TOLERANCE - 0.1
    mistake(monkeypatch)
    assert measured(spec, MUP, steps=8)[seen].slope > TOLERANCE + 0.1


def test_at_base_width_both_parametrizations_measure_the_same_and_dropout_and_precision_do_not_count() -> None:
    standard, mup = (measured(run(LLAMA), parametrization, steps=2) for parametrization in ("standard", MUP))
    other = measured(run(LLAMA, **{"model.dropout": 0.5, "precision": "bf16"}), MUP, steps=2)
    assert [line.values[0] for line in standard.values()] == [line.values[0] for line in mup.values()]
    assert other == mup


def test_activations_are_those_of_the_model_by_name() -> None:
    model, x = Transformer(run(GPT2).model, VOCABULARY), tokens(VOCABULARY, 8, seed=0)[:, :-1]
    model.initialize(0)
    found = activations(model, x)
    assert {name: len(each) for name, each in found.items()} == {
        "embedding": 1,
        "scores": 2,
        "attention": 2,
        "feed-forward": 2,
        "last stream": 1,
        "logits": 1,
    }
    stream = model.position(model.embedding(x))
    assert torch.equal(found["embedding"][0], stream)
    for attention, feedforward in zip(found["attention"], found["feed-forward"], strict=True):
        stream = stream + attention + feedforward
    torch.testing.assert_close(found["last stream"][0], stream)
    torch.testing.assert_close(found["logits"][0], model(x))
    assert model.training


def test_scores_are_those_of_the_keys_that_a_query_sees() -> None:
    model, x = Transformer(run(GPT2, **{"model.attention.window": 3}).model, VOCABULARY), torch.arange(8).view(1, 8)
    model.initialize(0)
    layer = model.layers[0]
    q, k, *_ = layer.attention.heads(layer.attention_norm(model.position(model.embedding(x))))
    seen = [(q[0, :, t] * k[0, :, s]).sum(-1) / math.sqrt(8) for t in range(8) for s in range(max(0, t - 2), t + 1)]
    torch.testing.assert_close(activations(model, x)["scores"][0][0], torch.stack(seen, dim=-1))


def test_drawn_tokens_are_as_frequent_as_words() -> None:
    drawn = torch.cat([tokens(4, 2000, seed) for seed in range(3)]).flatten()
    shares = drawn.bincount(minlength=4) / len(drawn)
    torch.testing.assert_close(shares, torch.tensor([12, 6, 4, 3]) / 25, atol=0.01, rtol=0)
    assert torch.equal(tokens(50, 9, 1), tokens(50, 9, 1))
    assert not torch.equal(tokens(50, 9, 1), tokens(50, 9, 2))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0 * width**0.7 for width in (32, 64, 256)], 0.7),
        ([2.0, 2.0, 2.0], 0.0),
        ([0.0, 0.0, 0.0], 0.0),
        ([1.0, math.inf, 1.0], math.inf),
        ([1.0, math.nan, 1.0], math.inf),
    ],
)
def test_the_slope_is_the_power_of_the_width(values: list[float], expected: float) -> None:
    assert slope((32, 64, 256), values) == pytest.approx(expected)


def test_what_diverges_is_not_flat_and_what_is_zero_is() -> None:
    diverged = measured(run(LLAMA, **{"optimizer.lr": 1e38, "model.norm": "none", "clip": None}), MUP)
    assert math.isinf(diverged["logits change"].slope)
    zero = measured(run(LLAMA, **{"model.init": "zero_output"}), MUP)["attention start"]
    assert (zero.values, zero.is_flat) == ((0.0, 0.0, 0.0), True)
