"""muP against Table 8 of arXiv:2203.03466, written out for small models four times as wide as their base."""

import math
from typing import Any, Literal

import pytest
import torch
from torch import nn

from labkit.components import Norm, Place
from labkit.components.mixing import Mixing
from labkit.components.norm import Identity
from labkit.components.parameters import gain, logical, parts_of
from labkit.model import ModelSpec, Transformer
from labkit.optim.optimizer import Optimizer
from labkit.optim.stepper import Stepper
from labkit.optim.weights import Weights
from labkit.spec import Mistake, Spec
from labkit.train.execution import Eager
from labkit.train.step import Step

VOCABULARY = 1009
GPT: dict[str, Any] = {
    "d_model": 64,
    "n_layers": 1,
    "context": 48,
    "norm": "layer",
    "residual": "pre",
    "attention": {"kind": "mha", "n_heads": 2, "bias": True, "output_bias": True},
    "feedforward": {"kind": "gelu", "bias": True},
    "position": "learned",
    "head": {"kind": "untied", "bias": True},
    "init": {"kind": "normal", "std": 0.02},
    "parametrization": {"kind": "mup", "base_width": 16},
}
STANDARD = {"parametrization": "standard"}
VECTORS = [
    "attention_norm.gain",
    "attention_norm.bias",
    "feedforward_norm.gain",
    "feedforward_norm.bias",
    "attention.qkv.bias",
    "attention.output.bias",
    "feedforward.up.bias",
    "feedforward.down.bias",
]
TABLE_8 = {
    # initial std, AdamW's rate, SGD's rate; where the init says 0.02 and the optimizer 1
    "embedding.weight": (0.02, 1.0, 4.0),
    "position.weight": (0.02, 1.0, 4.0),
    "layers.0.attention.qkv.weight": (0.01, 0.25, 1.0),
    "layers.0.attention.output.weight": (0.01, 0.25, 1.0),
    "layers.0.feedforward.up.weight": (0.01, 0.25, 1.0),
    "layers.0.feedforward.down.weight": (0.01, 0.25, 1.0),
    "head.project.weight": (0.02, 1.0, 4.0),
    **{f"layers.0.{name}": (0.0, 1.0, 4.0) for name in VECTORS},
    "norm.gain": (0.0, 1.0, 4.0),
    "norm.bias": (0.0, 1.0, 4.0),
    "head.project.bias": (0.0, 1.0, 1.0),  # its fan-out is the vocabulary
}


class Holder(Spec):
    optimizer: Optimizer


def built(**changes: Any) -> Transformer:
    model = Transformer(ModelSpec.from_json(GPT).patched(changes), VOCABULARY)
    model.initialize(0)
    return model


def stepping(model: Transformer, kind: str | dict[str, Any]) -> tuple[Weights, Stepper]:
    weights = Weights(model, "fp32")
    return weights, Holder.from_json({"optimizer": kind}).optimizer.build(weights)


def rates(model: Transformer, kind: str | dict[str, Any]) -> dict[str, float]:
    groups = stepping(model, kind)[1].param_groups
    return {weight.name: group["lr"] for group in groups for weight in group["weights"]}


def test_every_matrix_starts_with_the_spread_of_table_8() -> None:
    for name, stored in built().named_parameters():
        std = TABLE_8[name][0]
        if parts_of(name, stored)[0].role.is_matrix:
            error = 4 / math.sqrt(2 * stored.numel())
            assert stored.std().item() == pytest.approx(std, rel=error), name
            assert stored.mean().item() == pytest.approx(0.0, abs=4 * std / math.sqrt(stored.numel())), name


def test_and_with_the_values_of_standard_to_the_bit_times_that() -> None:
    found, plain = logical(built()), logical(built(**STANDARD))
    for name, value in found.items():
        hidden = name.startswith("layers.") and name.endswith("weight")
        assert torch.equal(value, 0.5 * plain[name] if hidden else plain[name]), name


@pytest.mark.parametrize(("kind", "column"), [("adamw", 1), ("lion", 1), ("sgd", 2)])
def test_every_parameter_moves_at_the_rate_of_table_8(kind: str, column: int) -> None:
    assert rates(built(), {"kind": kind, "lr": 1.0}) == {name: row[column] for name, row in TABLE_8.items()}


@pytest.mark.parametrize(("kind", "rate"), [("adamw", 1.0), ("sgd", 4.0)])
def test_a_tied_head_moves_as_the_embedding_that_it_is(kind: str, rate: float) -> None:
    found = rates(built(head="tied"), {"kind": kind, "lr": 1.0})
    assert found == {name: row[1 if kind == "adamw" else 2] for name, row in TABLE_8.items() if "head" not in name}
    assert found["embedding.weight"] == rate


@pytest.mark.parametrize("head", ["tied", {"kind": "untied", "bias": True}])
def test_logits_are_divided_by_the_growth_of_the_width(head: Any) -> None:
    model, tokens = built(head=head), torch.arange(32).view(2, 16)
    if head != "tied":
        nn.init.normal_(model.head.project.bias)
    seen: list[torch.Tensor] = []
    model.norm.register_forward_hook(lambda module, arguments, output: seen.append(output))
    layer = model.layers[0].register_forward_hook(lambda module, arguments, output: seen.append(sum(output[0])))
    logits = model(tokens)
    layer.remove()
    hidden = nn.functional.layer_norm(seen[0], (64,))
    matrix = model.embedding.weight if head == "tied" else model.head.project.weight
    bias = 0.0 if head == "tied" else model.head.project.bias
    torch.testing.assert_close(logits, hidden @ matrix.T / 4 + bias)


@pytest.mark.parametrize(
    ("changes", "scale"),
    [
        ({}, math.sqrt(8) / 32),
        ({"attention.scale": "inverse"}, 1 / 32),
        ({"attention.scale": {"kind": "fixed", "value": 0.5}}, 0.125),
        ({"parametrization.heads": "more"}, 1 / math.sqrt(32)),
        ({"attention": {"kind": "mla", "n_heads": 2}}, math.sqrt(8 + 4) / (32 + 16)),
        ({"attention": {"kind": "differential", "n_heads": 2}}, math.sqrt(4) / 16),
        ({"pattern": ({"attention.head_dim": 64},)}, math.sqrt(16) / 64),
    ],
)
def test_scores_are_divided_by_the_features_of_a_head_and_agree_at_base(changes: dict[str, Any], scale: float) -> None:
    for mixing in (module for module in built(**changes).modules() if isinstance(module, Mixing)):
        assert mixing.scale == pytest.approx(scale, rel=1e-12)


@pytest.mark.parametrize(
    ("init", "hidden", "embedding"),
    [
        ("mitchell", 1 / math.sqrt(64), 1 / math.sqrt(16)),
        ("xavier", math.sqrt(2 / (16 + 16)) / 2, math.sqrt(2 / (VOCABULARY + 16))),
    ],
)
def test_an_init_that_looks_at_sizes_sees_those_at_base_width(init: str, hidden: float, embedding: float) -> None:
    model = built(init=init)
    assert model.layers[0].attention.qkv.weight[:64].std().item() == pytest.approx(hidden, rel=0.05)
    assert model.embedding.weight.std().item() == pytest.approx(embedding, rel=0.03)


def test_scaled_embeddings_are_multiplied_by_the_root_of_the_base_width() -> None:
    model = built(**{"embedding.scaled": True})
    assert torch.equal(model.embedding(torch.tensor([[3]]))[0, 0], 4.0 * model.embedding.weight[3])


def test_what_turns_many_features_into_few_is_scaled_as_a_head_without_its_multiplier() -> None:
    changes = {"feedforward": {"kind": "moe", "n_experts": 4, "top_k": 2}, "attention.gate": "head"}
    model, plain = built(**changes), built(**changes, **STANDARD)
    few = ("layers.0.feedforward.router.project.weight", "layers.0.attention.gate.weight")
    found, before = logical(model), logical(plain)
    assert all(torch.equal(found[name], 0.25 * before[name]) for name in few)
    for kind, many in (("adamw", 0.25), ("sgd", 1.0)):
        rate = rates(model, {"kind": kind, "lr": 1.0})
        assert rate[few[0]] == rate["layers.0.attention.qkv.weight/gate"] == 0.25
        assert rate["layers.0.attention.qkv.weight/query"] == rate["layers.0.feedforward.experts.0.down.weight"] == many
        assert rate["layers.0.attention.qkv.bias"] == (1.0 if kind == "adamw" else 4.0)


def test_a_matrix_that_reads_the_same_features_at_every_width_is_scaled_as_an_embedding() -> None:
    """More heads of the same size leave the latent vectors of mla as wide as they were."""
    changes = {"attention": {"kind": "mla", "n_heads": 4, "head_dim": 8}}
    model, plain = built(**changes, **{"parametrization.heads": "more"}), built(**changes, **STANDARD)
    assert torch.equal(model.layers[0].attention.key_value.weight, plain.layers[0].attention.key_value.weight)
    assert rates(model, {"kind": "adamw", "lr": 1.0})["layers.0.attention.key_value.weight"] == 1.0


@pytest.mark.parametrize("kind", sorted(Optimizer.variants))
def test_decay_takes_the_same_share_of_every_matrix_at_every_width(kind: str) -> None:
    changes = {"lr": 0.5, "weight_decay": 0.1} | (
        {"adamw": {"kind": "adamw", "lr": 0.5, "weight_decay": 0.1}} if kind == "muon" else {}
    )
    _, optimizer = stepping(built(), {"kind": kind, **changes})
    for group in optimizer.param_groups:
        decays = group["weights"][0].is_matrix
        assert group["lr"] * group["weight_decay"] == pytest.approx(0.05 if decays else 0.0)


@pytest.mark.parametrize("kind", sorted(Optimizer.variants))
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "head": "tied",
            "embedding": {"scaled": True},
            "init": "mitchell",
            "feedforward": {"kind": "moe", "n_experts": 3, "top_k": 2},
            "attention": {"kind": "mla", "n_heads": 2, "gate": "head"},
            "position": "rope",
        },
    ],
    ids=["gpt", "moe"],
)
def test_at_base_width_it_trains_as_standard_does_to_the_bit(kind: str, changes: dict[str, Any]) -> None:
    tokens = torch.randint(VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(0))
    ends: list[list[torch.Tensor]] = []
    for parametrization in ("standard", {"kind": "mup", "base_width": 64}):
        model = built(**{**changes, "parametrization": parametrization})
        weights, optimizer = stepping(model, kind)
        once = {"batch_size": 2, "length": 8, "rows": 2, "dropout_seed": 0, "execution": Eager()}
        step = Step(model, weights, optimizer, factors=[1.0] * 2, clip=1.0, **once)
        for number in range(2):
            step(number, tokens)
        ends.append([*weights.masters.values(), model(tokens)])
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


def test_a_module_that_is_another_one_at_another_width_is_refused(own_imports: None) -> None:
    class Odd(Norm):
        """x."""

        kind: Literal["odd"] = "odd"

        def build(self, width: int, place: Place) -> nn.Module:
            norm = Identity()
            if width == 64:
                norm.gain = gain(width)
            return norm

    with pytest.raises(Mistake, match=r"attention_norm\.gain is built at d_model 64 but not at 128"):
        built(norm="odd")
    assert built(norm="odd", **STANDARD)


@pytest.mark.parametrize("width", [0, -1, 2**20 + 1, 1.5])
def test_a_base_width_that_is_none_is_refused(width: Any) -> None:
    with pytest.raises(ValueError, match="base_width"):
        ModelSpec.from_json(GPT).patched({"parametrization.base_width": width})
