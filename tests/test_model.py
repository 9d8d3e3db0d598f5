"""The whole transformer: counts, initial values, and what the spec refuses."""

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
from labkit.model import ModelSpec, Transformer, costs
from labkit.optim.optimizer import Adamw
from labkit.optim.weights import Weights
from labkit.spec import Mistake, explain

NANO = ModelSpec(
    d_model=32,
    n_layers=2,
    context=16,
    norm="rms",
    residual="pre",
    attention={"kind": "gqa", "n_heads": 4, "n_kv_heads": 2},
    feedforward="swiglu",
    position="rope",
    head="tied",
    init="scaled_residual",
)
VOCABULARY = 11


def built(changes: dict[str, object] | None = None, seed: int = 0) -> Transformer:
    model = Transformer(NANO.patched(changes or {}), VOCABULARY)
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


def test_recomputing_activations_gives_the_same_gradients_also_with_dropout() -> None:
    gradients = []
    for checkpointing in (False, True):
        model, x = built({"dropout": 0.2}), tokens()
        model.checkpointing = checkpointing
        model.keyed(1, 2, 3)
        model.losses(x, x.roll(-1, 1)).mean().backward()
        gradients.append([p.grad for p in model.parameters()])
    for here, there in zip(*gradients, strict=True):
        assert torch.equal(here, there)


def test_dropout_is_a_function_of_its_key_and_of_the_row_alone() -> None:
    model, x = built({"dropout": 0.2}), tokens(rows=4)
    model.keyed(0, 1, 0)
    whole = model(x)
    model.keyed(0, 1, 2)
    torch.testing.assert_close(model(x[2:]), whole[2:])
    model.keyed(0, 2, 0)
    assert not torch.allclose(model(x), whole, atol=1e-4)


@pytest.mark.parametrize("changes", [{}, {"head": "untied", "position": "learned"}, {"residual": "post"}])
def test_counted_parameters_are_the_real_ones(changes: dict[str, object]) -> None:
    counted, model = costs(NANO.patched(changes), VOCABULARY), built(changes)
    assert counted.params == sum(p.numel() for p in model.parameters()) == sum(row[1] for row in counted.table)
    outside = sum(
        p.numel() for name, p in model.named_parameters() if name.split(".")[0] in ("embedding", "position", "head")
    )
    assert counted.non_embedding == counted.params - outside


def test_counted_flops_are_those_that_torch_counts_but_for_the_masked_half_of_attention() -> None:
    spec = NANO.patched({"attention": {"kind": "mha", "n_heads": 4}})
    with torch.device("meta"):
        model, x = Transformer(spec, VOCABULARY), torch.zeros(2, 16, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    masked_half = 3 * 2 * 16 * 32 * spec.n_layers
    per_token = counter.get_total_flops() / 32
    recomputed_in_backward = 2 * 16 * 32 * 2 * spec.n_layers  # flash attention takes q kᵀ again
    assert costs(spec, VOCABULARY).flops_per_token == pytest.approx(per_token - masked_half, abs=recomputed_in_backward)


def test_flops_follow_the_usual_estimate() -> None:
    spec = NANO.patched({"d_model": 512, "n_layers": 8, "context": 1024})
    counted = costs(spec, 8192)
    assert counted.flops_per_token == pytest.approx(6 * counted.params + 6 * 8 * 1024 * 512, rel=0.001)


def test_counting_a_long_context_builds_no_tables() -> None:
    started = time.process_time()
    assert costs(NANO.patched({"context": 10**6}), VOCABULARY).params == costs(NANO, VOCABULARY).params
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
    optimizer = Adamw(lr=0.01, weight_decay=0.5).build(weights.decayed(), weights.kept())
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
            costs(NANO.patched({"norm": "mixed"}), VOCABULARY)
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
        ({"dropout": 1.0}, "dropout.embedding: Input should be less than 1 (got 1.0)"),
    ],
)
def test_a_combination_that_cannot_work_is_refused_when_the_spec_is_made(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        NANO.patched(changes)
    assert explain(raised.value, ModelSpec).startswith(message)
