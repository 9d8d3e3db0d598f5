"""Every option changes something, beside whatever else is said: two specs that differ are not one model.

Each option of each variant is taken alone and beside every other one of the same spec, and those that lean on the norm
or the position beside each of these. What then computes the same has to be refused.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
import torch

from labkit.components import Norm, Position, Residual
from labkit.components.attention import Mha
from labkit.components.parameters import Part, Role, parts_of
from labkit.faults import explain
from labkit.model import ModelSpec, Transformer
from labkit.optim.optimizer import Optimizer
from labkit.optim.schedule import Schedule
from labkit.optim.weights import Weight
from labkit.search.pruners import Pruner
from labkit.spec import Choice, ValidationError
from tests.specs import SMALL
from tests.test_conformance import FAMILIES, PLACES

BASE = SMALL.patched({"n_layers": 1, "context": 8, "attention": {"kind": "mha", "n_heads": 4}})

VALUES: dict[str, tuple[Any, ...]] = {
    **{"head_dim": (4,), "softcap": (0.1,), "window": (4,), "n_kv_heads": (4, 2), "kv_rank": (6,), "q_rank": (6,)},
    **{
        "rope_dim": (2,),
        "value_dim": (3,),
        "d_ff": (24,),
        "multiplier": (1.0,),
        "multiple_of": (50,),
        "eps": (0.9,),
        "scale.eps": (50.0,),
    },
    **{"theta": (50.0,), "fraction": (0.5,), "factor": (2.0, 3.0), "original": (4000, 2000), "beta_fast": (100.0,)},
    **{"beta_slow": (0.01,), "attention_factor": (2.0,), "low_frequency": (0.5,), "high_frequency": (10.0,)},
    **{"buckets": (8,), "max_distance": (5,), "start": (0.3,), "alpha": (2.0,), "std": (0.5,), "value": (0.3, 2.0)},
    **{"n_experts": (4, 1), "top_k": (1, 4), "n_shared": (1,), "balance": (1.0,), "router_z": (1.0,)},
    **{"base_width": (8,), "n_heads": (4, 2), "decay": (0.0, 0.5), "final": (0.5,), "warmup": (0.3,), "lr": (0.5,)},
    **{"betas": ((0.5, 0.5),), "weight_decay": (0.5,), "momentum": (0.0, 0.5), "clip": (0.1,), "memory": (0.3,)},
    **{"coefficients": ((1.0, 1.0, 1.0),), "iterations": (2,), "adamw": ({"kind": "adamw", "lr": 1e-5},)},
    **dict.fromkeys(("query_bias", "key_bias", "value_bias"), (True,)),
}
"""Of fields that are neither a boolean, a literal nor a family: others than the default, and what turns off others."""

UNSHOWN = {
    *(("multiple_of", "d_ff"), ("rope_dim", "head_dim")),
    *((f"{part}_bias", "bias") for part in ("query", "key", "value")),
    *(("original", "beta_fast"), ("beta_fast", "original")),
}
"""Where one says in full what the other says by a rule, and both may stand; where four pairs are too few to differ."""


def options(variant: type[Choice]) -> Iterator[tuple[str, Any]]:
    """(field, value) of all that may be set in a variant, its required fields at a second value."""
    for name, field in variant.model_fields.items():
        annotation: Any = field.annotation
        if name == "kind":
            continue
        if annotation is bool:
            yield name, not field.default
        elif "Literal" in str(annotation):
            yield from ((name, value) for value in get_args(annotation) if value != field.default)
        elif isinstance(annotation, type) and Choice in annotation.__bases__:
            kinds = annotation.variants
            yield from ((name, plain(kinds[kind])) for kind in sorted(kinds) if kinds[kind] is not type(field.default))
        else:
            known = VALUES.get(f"{variant.model_fields['kind'].default}.{name}", VALUES[name])
            yield from ((name, value) for value in known if value != required(variant).get(name))


def required(variant: type[Choice]) -> dict[str, Any]:
    fields = {name: VALUES[name][0] for name, field in variant.model_fields.items() if field.is_required()}
    return fields | ({"top_k": 2} if "top_k" in fields else {})


def plain(variant: type[Choice]) -> dict[str, Any]:
    return {"kind": variant.model_fields["kind"].default, **required(variant)}


def idle(base: dict[str, Any], given: list[tuple[str, Any]], made: Callable[[dict[str, Any]], Any]) -> Iterator[str]:
    """Every option that passes and changes nothing, alone or beside another; `made` raises for what is refused."""
    known: dict[str, Any] = {}
    for beside, other in [("", None), *given]:
        first = base | ({beside: other} if beside else {})
        without = tried(made, first, known)
        for name, value in given:
            if without is None or name == beside or (name, beside) in UNSHOWN:
                continue
            if tried(made, {**first, name: value}, known) == without:
                yield f"{name} {value} beside {beside} {other}"


def tried(made: Callable[[dict[str, Any]], Any], fields: dict[str, Any], known: dict[str, Any]) -> Any:
    """What is made of the fields, once, whichever of two was given first; None where they are refused."""
    if (key := json.dumps(fields, sort_keys=True)) not in known:
        try:
            known[key] = made(fields)
        except ValidationError:
            known[key] = None
    return known[key]


def computed(spec: ModelSpec) -> tuple[Any, ...]:
    """What a model is made of, starts from, and how far each parameter moves it, to nine digits."""
    model = Transformer(spec, 11).double()
    generator = torch.Generator().manual_seed(3)
    parts = [(name, stored.shape, parts_of(name, stored)) for name, stored in model.named_parameters()]
    starts = [stored.sum().item() for _, stored in model.named_parameters() if stored.ndim < 2]
    for name, stored in model.named_parameters():
        is_gain = all(part.role is Role.GAIN for part in parts_of(name, stored))
        torch.nn.init.normal_(stored, mean=1.0 if is_gain else 0.0, std=0.3, generator=generator)
    tokens_BT = torch.randint(11, (1, 8), generator=torch.Generator().manual_seed(1))
    model.losses(tokens_BT, tokens_BT.roll(-1, 1)).mean().backward()
    moved = [f"{stored.grad.norm().item() + 1:.9g}" for stored in model.parameters() if stored.grad is not None]
    return parts, starts, model.spreads(), spec.init.cutoff, moved


def at(path: str, around: ModelSpec = BASE) -> Callable[[dict[str, Any]], Any]:
    """What a model computes with given fields of a component."""
    return lambda fields: computed(around.patched({path: fields}))


def variants(*families: type[Choice]) -> list[Any]:
    found = [(family, kind) for family in families for kind in sorted(family.variants)]
    return [pytest.param(family, kind, id=f"{family.__name__}-{kind}") for family, kind in found]


@pytest.mark.parametrize(("family", "kind"), variants(*FAMILIES))
def test_every_option_of_a_component_changes_the_model_or_is_refused(family: type[Choice], kind: str) -> None:
    variant = family.variants[kind]
    base = plain(variant) | ({"original": 4000} if "original" in variant.model_fields else {})  # or all pairs are slow
    own = {name for name in variant.model_fields if name not in family.model_fields}
    given = [(name, value) for name, value in options(variant) if kind in ("mha", "mla") or name in own]
    given = [(name, value) for name, value in given if base.get(name) != value]
    assert [*idle(base, given, at(PLACES[family]))] == []


@pytest.mark.parametrize("position", sorted(Position.variants))
def test_every_option_of_a_norm_of_queries_changes_the_model_or_is_refused(position: str) -> None:
    around = BASE.patched({"position": position})
    given = [(name, value) for name, value in options(Mha) if name.startswith("qk_norm")]
    assert [*idle(plain(Mha), given, at("attention", around))] == []


@pytest.mark.parametrize("residual", sorted(Residual.variants))
def test_every_option_of_a_placement_changes_the_model_with_any_norm_or_is_refused(residual: str) -> None:
    variant = Residual.variants[residual]
    given = [(name, value) for name, value in options(variant) if name != "scale"]
    for norm in (*sorted(Norm.variants), {"kind": "rms", "gain": False}):
        assert [*idle(plain(variant), given, at("residual", BASE.patched({"norm": norm})))] == []


def test_every_option_of_a_schedule_changes_the_rates_or_is_refused() -> None:
    for variant in Schedule.variants.values():

        def rates(fields: dict[str, Any], variant: Any = variant) -> list[float]:
            return [variant.from_json(fields).factor(step, 20) for step in range(20)]

        assert [*idle(plain(variant), [*options(variant)], rates)] == []


def test_every_option_of_an_optimizer_changes_its_steps_or_is_refused() -> None:
    for variant in Optimizer.variants.values():

        def steps(fields: dict[str, Any], variant: Any = variant) -> list[float]:
            weights = [weight("hidden", Role.UP), weight("table", Role.EMBEDDING)]
            optimizer = variant.from_json(fields).build(weights)
            for step in range(3):
                for one in weights:
                    one.value.grad = torch.randn(6, 4, generator=torch.Generator().manual_seed(step))
                optimizer.step()
            return [one.value.double().norm().item() for one in weights]

        assert [*idle(plain(variant), [*options(variant)], steps)] == []


def weight(name: str, role: Role) -> Weight:
    value = torch.randn(6, 4, generator=torch.Generator().manual_seed(9))
    value.grad = torch.zeros_like(value)
    return Weight(name, value, (Part(role, 6, 4),), value.dtype)


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"attention.qk_norm_over": "all_heads"},
        "attention.qk_norm_over: all_heads changes nothing where qk_norm is none",
    ),
    (
        {"attention.bias": True, **{f"attention.{part}_bias": False for part in ("query", "key", "value")}},
        "attention.bias",
    ),
    (
        {"norm": {"kind": "rms", "casting": "gemma", "gain": False}},
        "norm.casting: gemma changes nothing where there is",
    ),
    (
        {"feedforward.d_ff": 24, "feedforward.multiplier": 2.0},
        "feedforward.multiplier: 2 changes nothing where d_ff 24",
    ),
    ({"residual": {"kind": "parallel", "shared_norm": False}, "norm": "none"}, "residual.shared_norm: False changes"),
    (
        {"attention.qk_norm": "rms", "attention.qk_norm_place": "after_position", "position": "learned"},
        "attention.qk_norm_place: after_position changes nothing where position learned turns nothing",
    ),
    (
        {"attention.window": 4, "pattern": [{"attention.window": 2}, {"attention": {"window": None}}]},
        "attention.window: 4 changes nothing where every entry of pattern gives its own",
    ),
]


@pytest.mark.parametrize(("changes", "told"), REFUSED, ids=lambda value: "" if isinstance(value, dict) else value[:24])
def test_an_option_that_changes_nothing_is_refused_by_name(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        SMALL.patched(changes)
    assert explain(refused.value, ModelSpec).startswith(told)
    assert "leave" in explain(refused.value, ModelSpec)


def test_a_change_takes_along_what_it_leaves_idle() -> None:
    normed = SMALL.patched({"attention.qk_norm": "rms", "attention.qk_norm_over": "all_heads"})
    assert normed.patched({"attention.qk_norm": "none"}) == SMALL
    wide = SMALL.patched({"feedforward.multiplier": 2.0})
    assert wide.patched({"feedforward.d_ff": 24}) == SMALL.patched({"feedforward.d_ff": 24})
    apart = SMALL.patched({"residual": {"kind": "parallel", "shared_norm": False}})
    assert apart.patched({"norm": "none"}).residual.label == "parallel"
    layered = normed.patched({"pattern": [{"attention.qk_norm": "none"}, {}]}).layers
    assert [layer.attention.qk_norm_over for layer in layered] == ["head", "all_heads"]


def test_what_a_change_leaves_idle_is_not_taken_along_where_the_change_says_it() -> None:
    normed = SMALL.patched({"attention.qk_norm": "rms", "attention.qk_norm_over": "all_heads"})
    with pytest.raises(ValidationError):
        normed.patched({"attention.qk_norm": "none", "attention.qk_norm_over": "all_heads"})


@pytest.mark.parametrize("kind", ["none", "wilcoxon"])
def test_a_pruner_that_never_looks_into_a_run_refuses_the_part_that_it_would_leave_alone(kind: str) -> None:
    with pytest.raises(ValidationError, match=r"minimum: 0\.5 changes nothing where"):
        Pruner.variants[kind].from_json({"kind": kind, "minimum": 0.5})
