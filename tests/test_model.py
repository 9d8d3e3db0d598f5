"""The whole transformer: counts, initial values, and what the spec refuses."""

import math
import time
from collections.abc import Iterator
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from labkit.components import Norm, Part, Place, Role, parameter
from labkit.components.parameters import logical
from labkit.faults import explain
from labkit.model import ModelSpec, Transformer, costs
from labkit.optim.optimizer import Adamw
from labkit.optim.weights import Weights
from labkit.spec import Mistake
from tests.specs import SMALL

VOCABULARY = 11


def built(changes: dict[str, object] | None = None, seed: int = 0) -> Transformer:
    model = Transformer(SMALL.patched(changes or {}), VOCABULARY)
    model.initialize(seed)
    return model


def tokens(rows: int = 2, length: int = 16) -> torch.Tensor:
    return torch.randint(VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(1))


def test_the_loss_is_torchs_cross_entropy_and_skips_ignored_targets() -> None:
    model, x = built(), tokens()
    targets = x.roll(-1, 1)
    targets[0, :5] = -100
    losses = model.losses(x, targets)
    assert (losses.shape, losses.dtype) == ((2, 16), torch.float32)
    assert (losses[0, :5] == 0).all()
    expected = F.cross_entropy(model(x).flatten(0, 1), targets.flatten(), ignore_index=-100)
    torch.testing.assert_close(losses.sum() / 27, expected)


def test_a_pre_norm_gpt_equals_torchs_own_layer() -> None:
    changes = {
        "norm": "layer",
        "attention": {"kind": "mha", "n_heads": 4, "bias": True, "output_bias": True},
        "feedforward": {"kind": "gelu", "bias": True},
        "position": "none",
        "n_layers": 1,
    }
    model, x = built(changes).double(), tokens()
    layer = nn.TransformerEncoderLayer(32, 4, 128, 0.0, "gelu", batch_first=True, norm_first=True).double()
    block = model.layers[0]
    pairs = {
        "self_attn.in_proj_weight": block.attention.qkv.weight,
        "self_attn.in_proj_bias": block.attention.qkv.bias,
        "self_attn.out_proj.weight": block.attention.output.weight,
        "self_attn.out_proj.bias": block.attention.output.bias,
        "linear1.weight": block.feedforward.up.weight,
        "linear1.bias": block.feedforward.up.bias,
        "linear2.weight": block.feedforward.down.weight,
        "linear2.bias": block.feedforward.down.bias,
        "norm1.weight": block.attention_norm.gain,
        "norm1.bias": block.attention_norm.bias,
        "norm2.weight": block.feedforward_norm.gain,
        "norm2.bias": block.feedforward_norm.bias,
    }
    for value in pairs.values():
        nn.init.normal_(value, std=0.3)
    layer.load_state_dict({name: value.detach() for name, value in pairs.items()})
    mask = nn.Transformer.generate_square_subsequent_mask(16, dtype=torch.float64)
    hidden = F.layer_norm(layer(model.embedding(x), src_mask=mask), (32,))
    torch.testing.assert_close(model(x), hidden @ model.embedding.weight.T)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "layer"},
        {"residual": "post"},
        {"position": "learned"},
        {"position.theta": 500.0},
        {"head": "untied"},
        {"dropout": 0.1},
        {"attention": {"kind": "mha", "n_heads": 4}},
        {"feedforward": "gelu"},
        {"n_layers": 3, "init": "normal"},
        {"residual": "peri"},
        {"residual": "parallel"},
        {"residual.scale": "layerscale"},
        {"embedding.norm": "rms", "embedding.scaled": True},
        {"pattern": ({"position": "none"},)},
    ],
)
def test_changing_one_component_leaves_every_other_initial_value_as_it_was(changes: dict[str, object]) -> None:
    before, after = logical(built()), logical(built(changes))
    same_shape = {name for name in before.keys() & after.keys() if before[name].shape == after[name].shape}
    written = {name for name in same_shape if "output" in name or "down" in name} if "init" in changes else set()
    assert len(same_shape - written) >= 8
    for name in same_shape - written:
        assert torch.equal(before[name], after[name]), name


def test_the_initial_loss_is_that_of_a_uniform_guess() -> None:
    x = tokens(rows=64)
    assert built().losses(x, x.roll(-1, 1)).mean().item() == pytest.approx(torch.tensor(11.0).log().item(), rel=0.02)


MIXTURE = {"kind": "moe", "n_experts": 4, "top_k": 2, "balance": 0.5, "router_z": 0.1}


@pytest.mark.parametrize("changes", [{}, {"feedforward": MIXTURE}])
def test_recomputing_activations_gives_the_same_gradients_also_with_dropout(changes: dict[str, object]) -> None:
    gradients = []
    for checkpointing in (False, True):
        model, x = built({"dropout": 0.2, **changes}), tokens()
        model.checkpointing = checkpointing
        model.keyed_by(torch.tensor([1, 2, 3]))
        model.losses(x, x.roll(-1, 1)).mean().backward()
        gradients.append([p.grad for p in model.parameters()])
    for here, there in zip(*gradients, strict=True):
        assert torch.equal(here, there)


def test_dropout_is_a_function_of_its_key_and_of_the_row_alone() -> None:
    model, x = built({"dropout": 0.2}), tokens(rows=4)
    model.keyed_by(torch.tensor([0, 1, 0]))
    whole = model(x)
    model.keyed_by(torch.tensor([0, 1, 2]))
    torch.testing.assert_close(model(x[2:]), whole[2:])
    model.keyed_by(torch.tensor([0, 2, 0]))
    assert not torch.allclose(model(x), whole, atol=1e-4)


def test_training_minimises_what_the_spec_adds_and_evaluation_measures_the_plain_loss() -> None:
    model, x = built({"feedforward": MIXTURE, "loss": {"z": 0.1, "label_smoothing": 0.2}}), tokens()
    targets = x.roll(-1, 1)
    targets[0, :5] = -100
    logits = model.eval()(x).flatten(0, 1)
    plain = F.cross_entropy(logits, targets.flatten(), reduction="none").view_as(targets)
    torch.testing.assert_close(model.losses(x, targets), plain)
    smoothed = F.cross_entropy(logits, targets.flatten(), reduction="none", label_smoothing=0.2).view_as(targets)
    expected = smoothed + 0.1 * logits.logsumexp(-1).square().view_as(targets)
    for layer in model.train().layers:
        layer.feedforward.register_forward_hook(lambda module, given, out: left.append(module.left[0]))
    left: list[torch.Tensor] = []
    losses = model.losses(x, targets)
    assert len(left) == 2
    torch.testing.assert_close(losses, (expected + sum(left)) * (targets != -100))


def test_a_mixture_trains_the_same_however_the_batch_is_split() -> None:
    model, x = built({"feedforward": MIXTURE}).double(), tokens(rows=4)
    parts = torch.cat([model.losses(half, half.roll(-1, 1)) for half in x.split(2)])
    torch.testing.assert_close(model.losses(x, x.roll(-1, 1)), parts)


def test_an_embedding_is_scaled_then_normed_then_placed() -> None:
    model = built({"embedding": {"scaled": True, "norm": "rms"}, "position": "learned"})
    x, seen = tokens(), []
    model.layers[0].register_forward_hook(lambda module, given, out: seen.append(given[0]))
    model(x)
    expected = F.rms_norm(32**0.5 * model.embedding.weight[x], (32,), eps=1e-6) + model.position.weight
    torch.testing.assert_close(seen[0], expected)


@pytest.mark.parametrize("residual", ["pre", "deepnorm"])
def test_initial_values_have_the_spread_of_their_layer_and_placement(residual: str) -> None:
    model = built({"d_model": 256, "n_layers": 2, "init": "mitchell", "residual": residual})
    shrunk = 16**-0.25 if residual == "deepnorm" else 1.0
    cut = 0.9866  # of the spread, where nothing lies beyond three of them
    spreads = {
        "embedding.weight": 1 / 16,
        "layers.1.attention.query.weight": 1 / 16,
        "layers.1.attention.value.weight": shrunk / 16,
        "layers.0.attention.output.weight": shrunk / math.sqrt(2 * 256),
        "layers.1.attention.output.weight": shrunk / math.sqrt(4 * 256),
        "layers.1.feedforward.down.weight": shrunk / math.sqrt(4 * 688),
    }
    for name, spread in spreads.items():
        assert logical(model)[name].std().item() == pytest.approx(cut * spread, rel=0.03), name


NOPE = {"n_layers": 4, "pattern": ({}, {"position": "none"})}


def test_a_pattern_is_cycled_over_the_layers() -> None:
    spec = SMALL.patched({"n_layers": 5, "pattern": ({}, {}, {"position": "none", "attention.n_kv_heads": 1})})
    assert [layer.position.kind for layer in spec.layers] == ["rope", "rope", "none", "rope", "rope"]
    assert [layer.attention.kv_heads for layer in spec.layers] == [2, 2, 1, 2, 2]
    model = Transformer(spec, VOCABULARY)
    assert [layer.attention.n_kv_heads for layer in model.layers] == [2, 2, 1, 2, 2]
    assert sum(stored.numel() for stored in model.parameters()) == costs(spec, VOCABULARY).params


def test_a_layer_of_a_pattern_is_that_of_a_model_made_of_it() -> None:
    mixed, plain = built(NOPE), built({"n_layers": 4, "position": "none"})
    stream = torch.randn(2, 16, 32)
    for layer in (1, 3):
        torch.testing.assert_close(mixed.layers[layer](stream)[0], plain.layers[layer](stream)[0])
    assert not torch.allclose(mixed.layers[0](stream)[0][1], plain.layers[0](stream)[0][1])


def test_layers_may_differ_in_where_their_norms_stand_and_the_last_one_tells_how_it_ends() -> None:
    before, after = built({"pattern": ({"residual": "post"}, {})}), built({"pattern": ({}, {"residual": "post"})})
    assert [type(model.norm).__name__ for model in (before, after)] == ["RmsNorm", "Identity"]
    assert after(tokens()).isfinite().all()


def test_costs_and_reach_follow_the_pattern() -> None:
    wide = {"n_layers": 4, "pattern": ({}, {"feedforward.d_ff": 200})}
    once, none = costs(SMALL.patched(wide), VOCABULARY), costs(SMALL.patched({"n_layers": 4}), VOCABULARY)
    assert once.params - none.params == 2 * 3 * 32 * (200 - 88)
    assert once.flops_per_token - none.flops_per_token == 6 * (once.params - none.params)
    assert SMALL.patched(NOPE).reach is None
    assert SMALL.patched({**NOPE, "position": "learned", "pattern": ({}, {})}).reach == 16


def test_equal_patterns_are_equal_however_they_are_written() -> None:
    patterns = [
        ({}, {"position.theta": 500, "attention": {"bias": True}}),
        ({}, {"position": {"theta": 500.0}, "attention.bias": True}),
    ]
    one, other = (SMALL.patched({"pattern": pattern}) for pattern in patterns)
    assert (one, hash(one), one.fingerprint) == (other, hash(other), other.fingerprint)
    assert ModelSpec.from_json(one.as_json()) == one != SMALL
    whole = SMALL.patched({"pattern": ({"position": {"kind": "rope", "theta": 10_000.0}},)})
    assert whole.pattern == ({"position": "rope"},)


def test_a_path_steps_into_a_pattern() -> None:
    spec = SMALL.patched({"pattern": ({}, {"attention.bias": True})})
    changed = spec.patched({"pattern.1.attention.bias": False, "pattern.0.position": "none"})
    assert changed.pattern == ({"position": "none"}, {"attention": {"bias": False}})
    assert spec.pattern == ({}, {"attention": {"bias": True}})


def test_a_mixture_counts_what_computes_a_token() -> None:
    counted = costs(SMALL.patched({"feedforward": {**MIXTURE, "n_shared": 1}}), VOCABULARY)
    expert, router = 3 * 32 * 88, 4 * 32
    layers = counted.params - 11 * 32 - 32
    assert counted.params - counted.active == 2 * 2 * expert
    assert layers / 2 == 5 * expert + router + 2 * 32 + 2 * 32 * 32 + 2 * 16 * 32
    row = next(flops for name, _, flops in counted.table if name == "layers.feedforward")
    assert row == 2 * 6 * (3 * expert + router)


@pytest.mark.parametrize("changes", [{}, {"head": "untied", "position": "learned"}, {"residual": "post"}])
def test_counted_parameters_are_the_real_ones(changes: dict[str, object]) -> None:
    counted, model = costs(SMALL.patched(changes), VOCABULARY), built(changes)
    assert counted.params == sum(p.numel() for p in model.parameters()) == sum(row[1] for row in counted.table)
    outside = sum(
        p.numel() for name, p in model.named_parameters() if name.split(".")[0] in ("embedding", "position", "head")
    )
    assert counted.non_embedding == counted.params - outside


def test_counted_flops_are_those_that_torch_counts_but_for_the_masked_half_of_attention() -> None:
    spec = SMALL.patched({"attention": {"kind": "mha", "n_heads": 4}})
    with torch.device("meta"):
        model, x = Transformer(spec, VOCABULARY), torch.zeros(2, 16, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    masked_half = 3 * 2 * 16 * 32 * spec.n_layers
    per_token = counter.get_total_flops() / 32
    recomputed_in_backward = 2 * 16 * 32 * 2 * spec.n_layers  # flash attention takes q kᵀ again
    assert costs(spec, VOCABULARY).flops_per_token == pytest.approx(per_token - masked_half, abs=recomputed_in_backward)


def test_flops_follow_the_usual_estimate() -> None:
    spec = SMALL.patched({"d_model": 512, "n_layers": 8, "context": 1024})
    counted = costs(spec, 8192)
    assert counted.flops_per_token == pytest.approx(6 * counted.params + 6 * 8 * 1024 * 512, rel=0.001)


def test_counting_a_long_context_builds_no_tables() -> None:
    started = time.process_time()
    assert costs(SMALL.patched({"context": 10**6}), VOCABULARY).params == costs(SMALL, VOCABULARY).params
    assert time.process_time() - started < 0.5


@pytest.fixture
def scaled() -> Iterator[str]:
    """A norm as a user writes it, with a vector that says no role."""

    class Scaled(Norm):
        """s · x."""

        kind: Literal["scaled"] = "scaled"

        def build(self, width: int, place: Place) -> nn.Module:
            return ScaledNorm(width)

    class ScaledNorm(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.full((width,), 0.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.scale * x

    yield "scaled"
    del Norm.variants["scaled"]


def test_a_user_vector_of_a_norm_keeps_its_start_is_trained_and_is_not_decayed(scaled: str) -> None:
    model, x = built({"norm": scaled}), tokens()
    scales = {name: stored for name, stored in model.named_parameters() if name.endswith("scale")}
    assert len(scales) == 5
    assert {stored.unique().item() for stored in scales.values()} == {0.5}
    weights = Weights(model, "fp32")
    optimizer = Adamw(lr=0.01, weight_decay=0.5).build(weights)
    optimizer.step()  # without gradients only decay moves anything
    assert {stored.unique().item() for stored in scales.values()} == {0.5}
    model.losses(x, x.roll(-1, 1)).mean().backward()
    optimizer.step()
    for name, stored in scales.items():
        assert weights.masters[name].grad.abs().min() > 0, name  # type: ignore[union-attr]
        assert (stored != 0.5).all(), name


def test_a_matrix_that_nobody_counts_is_refused_with_the_line_to_write() -> None:
    class Mixing(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.mix = parameter(torch.empty(width, width), Part(Role.UP, width, width))

    class Mixed(Norm):
        """W x."""

        kind: Literal["mixed"] = "mixed"

        def build(self, width: int, place: Place) -> nn.Module:
            return Mixing(width)

    try:
        with pytest.raises(Mistake) as raised:
            costs(SMALL.patched({"norm": "mixed"}), VOCABULARY)
    finally:
        del Norm.variants["mixed"]
    assert str(raised.value) == (
        "model.layers.attention_norm: Mixing holds the matrix 'mix' but has no flops. Make it with labkit's Linear, "
        "or write  def flops(self, length: int) -> int: return 2 * self.mix.numel()"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention.n_heads": 5, "attention.n_kv_heads": 5}, "attention: n_heads 5 does not divide d_model 32"),
        ({"attention.n_kv_heads": 3}, "attention: n_kv_heads 3 does not divide n_heads 4"),
        ({"residual": "deepnorm", "norm": "none"}, "residual: deepnorm multiplies the stream in every branch"),
        ({"attention.head_dim": 7}, "position: rope turns pairs of features, but 1 of head_dim 7 is 7 features"),
        ({"position.fraction": 0.4}, "position: rope turns pairs of features, but 0.4 of head_dim 8 is 3 features"),
        (
            {"d_model": 32, "feedforward.multiplier": 1 / 64},
            "feedforward: multiplier 0.015625 leaves nothing of d_model 32; write a larger one, or d_ff",
        ),
        (
            {"attention": {"kind": "mha", "n_heads": 2**16, "head_dim": 2**10}},
            "attention: n_heads times head_dim are 67,108,864 features; write at most 16,777,216",
        ),
        ({"n_layers": 0}, "n_layers: Input should be greater than 0 (got 0)"),
        ({"norm": "rmsnorm"}, "norm: unknown Norm kind 'rmsnorm'. Did you mean 'rms'?"),
        (
            {"pattern": ({}, {"position.theta": 0})},
            "pattern.1: position.theta: Input should be greater than or equal to 1",
        ),
        ({"pattern": ({"attention.n_kv_heads": 3},)}, "pattern.0: attention: n_kv_heads 3 does not divide n_heads 4"),
        ({"pattern": ({"position.thta": 1},)}, "pattern.0.position.thta: rope has no field 'thta'. Did you mean"),
        ({"pattern": ({"d_model": 64},)}, "pattern.0.d_model: layers may differ in norm, residual, attention,"),
        ({"pattern": "NoPE"}, "pattern: 'NoPE' is no list of changes to layers; write one for each layer of a cycle"),
        ({"pattern": ("local", {})}, "pattern: ['local', {}] is no list of changes to layers; write one for each"),
        ({"pattern": ({}, {}, {})}, "pattern: 3 entries for n_layers 2"),
        ({"pattern": ({"position": "learned"},)}, "pattern.0.position: learned instead of rope, but what is added"),
        ({"feedforward": {**MIXTURE, "top_k": 9}}, "feedforward: top_k 9 is more than n_experts 4"),
        (
            {"feedforward": {**MIXTURE, "expert": {"kind": "gelu", "multiplier": 1 / 64}}},
            "feedforward: expert: multiplier 0.015625 leaves nothing of d_model 32; write a larger one, or d_ff",
        ),
        (
            {"attention": {"kind": "differential", "n_heads": 2**16, "head_dim": 2**10}},
            "attention: n_heads times head_dim are 134,217,728 features; write at most 16,777,216",
        ),
        (
            {"attention": {"kind": "mla", "n_heads": 2**16, "head_dim": 2**10, "rope_dim": 2}},
            "attention: n_heads times head_dim are 67,239,936 features; write at most 16,777,216",
        ),
        ({"attention": {"kind": "mla", "n_heads": 4, "kv_rank": 2**62}}, "attention.kv_rank: Input should be less"),
        ({"feedforward": {**MIXTURE, "n_experts": 2**31}}, "feedforward.n_experts: Input should be less than or equal"),
        ({"feedforward": {**MIXTURE, "n_shared": 2**70}}, "feedforward.n_shared: Input should be less than or equal"),
        ({"position": {"kind": "t5", "buckets": 2**31, "max_distance": 2**31}}, "position.buckets: Input should be"),
        ({"attention.softcap": 1e38}, "attention.softcap: Input should be less than or equal to 1000000000 (got"),
        ({"head.softcap": 1e-30}, "head.softcap: Input should be greater than or equal to 0.001 (got 1e-30)"),
        (
            {"position.scaling": {"kind": "ntk", "factor": 1e300}},
            "position.scaling.factor: 1e+300 is nothing that fp32",
        ),
        (
            {"pattern": ({"attention.window": 8, "attention.window.x": 1},)},
            "pattern.0: attention.window.x: window = 8 is given as well, and nothing lies under that",
        ),
        ({"pattern": ({"attention": None, "attention.window": 3},)}, "pattern.0: attention.window: attention = None"),
        ({"dropout": 1.0}, "dropout.embedding: Input should be less than 1 (got 1.0)"),
    ],
)
def test_a_combination_that_cannot_work_is_refused_when_the_spec_is_made(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        SMALL.patched(changes)
    assert explain(raised.value, ModelSpec).startswith(message)
