"""What is read through a cache is what is read at once."""

from typing import Any, Literal

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from labkit.components import Attention, FeedForward, Position, Residual
from labkit.components.rope_scaling import RopeScaling
from labkit.generate.cache import Kept, caching, reading
from labkit.model import Transformer
from labkit.spec import Choice, Mistake

REQUIRED = {"n_heads": 4, "n_kv_heads": 2, "n_experts": 4, "top_k": 2, "factor": 2.0}


def kinds(family: type[Choice]) -> list[dict[str, Any]]:
    """Every registered variant, with what it requires."""
    return [
        {"kind": kind, **{name: REQUIRED[name] for name, field in variant.model_fields.items() if field.is_required()}}
        for kind, variant in sorted(family.variants.items())
    ]


def of(option: dict[str, Any]) -> str:
    return "-".join(map(str, option.values()))


OPTIONS = [
    {"attention.window": 1},
    {"attention.window": 5},
    {"attention.softcap": 2.0},
    {"attention.sinks": True},
    {"attention.sinks": True, "attention.window": 3, "position": "alibi"},
    {"attention.gate": "head"},
    {"attention.gate": "element"},
    {"attention.bias": True, "attention.output_bias": True},
    {"attention.qk_norm": "rms"},
    {"attention.qk_norm": "rms", "attention.qk_norm_place": "after_position", "attention.qk_norm_over": "all_heads"},
    {"attention": {"kind": "mla", "n_heads": 4, "q_rank": 6, "kv_rank": 6, "rope_dim": 2, "value_dim": 3}},
    {"attention": {"kind": "mla", "n_heads": 4, "window": 3}},
    {"attention": {"kind": "differential", "n_heads": 4, "window": 3, "softcap": 4.0}},
    {"position.layout": "interleaved", "position.fraction": 0.5},
    {"head": {"kind": "tied", "softcap": 3.0}, "embedding.norm": "layer", "embedding.scaled": True},
    {"pattern": ({}, {"position": "none", "attention.window": 2})},
    {"dropout": 0.5},
]

TOKENS = torch.randint(11, (2, 24), generator=torch.Generator().manual_seed(1))


def holds(model: Transformer, chunks: list[int]) -> None:
    """The logits after each chunk equal those of reading everything from the start."""
    length = sum(chunks)
    with caching(model, length) as read:
        ends = torch.tensor(chunks).cumsum(0).tolist()
        cached = [read(TOKENS[:, :end]) for end in ends]
    with reading(model) as read:
        for end, logits_BV in zip(ends, cached, strict=True):
            torch.testing.assert_close(logits_BV, read(TOKENS[:, :end]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("position", kinds(Position), ids=of)
@pytest.mark.parametrize("attention", kinds(Attention), ids=of)
def test_every_attention_and_position_reads_on_token_by_token(make, attention, position) -> None:
    model = make({"attention": attention, "position": position})
    holds(model, [6] + [1] * 12)


@pytest.mark.parametrize("changes", OPTIONS, ids=str)
def test_every_option_reads_on_token_by_token(make, changes) -> None:
    holds(make(changes), [6] + [1] * 12)


@pytest.mark.parametrize(
    "changes",
    [
        *({"position": {"kind": "rope", "scaling": scaling}} for scaling in kinds(RopeScaling)),
        *({"feedforward": feedforward} for feedforward in kinds(FeedForward)),
        *({"residual": residual} for residual in kinds(Residual)),
    ],
    ids=str,
)
def test_every_scaling_feedforward_and_placement_reads_on_token_by_token(make, changes) -> None:
    holds(make(changes), [6] + [1] * 4)


LAYER = st.fixed_dictionaries(
    {},
    optional={
        "attention.window": st.integers(1, 20),
        "position": st.sampled_from(["none", "rope", "alibi", "t5"]),
        "attention.sinks": st.booleans(),
        "residual": st.sampled_from(["pre", "peri", "reordered"]),
    },
)


@settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(LAYER, max_size=3), st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_any_pattern_of_layers_is_read_in_any_chunks(make, pattern, chunks) -> None:
    while sum(chunks) > 24:
        chunks = chunks[:-1]
    holds(make({"n_layers": 3, "pattern": tuple(pattern)}), chunks)


@pytest.mark.parametrize("window", [1, 2, 3, 7, float("inf")])
def test_a_window_keeps_no_more_than_it_needs(window: float) -> None:
    kept, x = Kept(100, window), torch.arange(100.0).view(1, 1, 100, 1)
    at = 0
    for new in (4, 1, 1, 9, 1, 1, 1, 30, 1, 1):
        fresh = x[:, :, at : at + new]
        k, v, older = kept.extended(fresh, -fresh)
        assert older == min(at, window - 1)
        assert torch.equal(k, x[:, :, at - older : at + new])
        assert torch.equal(v, -k)
        at += new
    assert all(buffer.shape[2] <= 2 * window for buffer in kept.buffers)


def test_beyond_the_reach_the_last_tokens_are_read_from_position_0_on(make) -> None:
    model = make({"position": "learned"})
    with caching(model, 24) as read:
        for end in (10, 16, 17, 20, 24):
            logits_BV = read(TOKENS[:, :end])
    torch.testing.assert_close(logits_BV, model(TOKENS[:, 8:])[:, -1])


def test_the_model_is_as_it_was_afterwards(make) -> None:
    model = make().train()
    before = list(model.named_modules())
    with pytest.raises(KeyboardInterrupt), caching(model, 8):
        raise KeyboardInterrupt
    assert [(name, id(module)) for name, module in model.named_modules()] == [
        (name, id(module)) for name, module in before
    ]
    assert model.training


@pytest.fixture
def own() -> Any:
    """What a test registers is gone after it."""
    registries = [(family, dict(family.variants)) for family in (Attention, Position)]
    yield
    for family, variants in registries:
        family.variants = variants


def test_a_component_that_cannot_go_on_is_named(make, own) -> None:
    class Closed(Attention):
        """Shows nothing."""

        kind: Literal["closed"] = "closed"

        def fault(self, width: int) -> str | None:
            return None

        def build(self, width: int, place: Any, position: Any, dropout: float) -> nn.Module:
            return nn.Identity()

    class Unmoved(Position):
        """Begins at 0 for ever."""

        kind: Literal["unmoved"] = "unmoved"

        def build(self, width: int, place: Any) -> nn.Module:
            return Begins()

    class Begins(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x

    for changes, place in (
        ({"attention": {"kind": "closed", "n_heads": 4}}, "model.attention: Identity of layer 0"),
        ({"position": "unmoved"}, "model.position: Begins.forward"),
    ):
        with pytest.raises(Mistake, match=f"{place}.*--no-cache"), caching(make(changes), 8):
            pass
