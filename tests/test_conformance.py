"""What every registered variant must do, which it is held to by existing."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import labkit.components
from labkit.components.parameters import logical
from labkit.model import ModelSpec, Transformer, costs
from labkit.spec import Choice

SIZES: dict[str, Any] = {"n_heads": 4, "n_kv_heads": 2}
"""Values for the fields that a variant requires."""

SOURCE = r"arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,}/|\bsection \d|GPT-2"
FORMULA = r"\w = \S|√|⊙|←|N\("

FIELDS = {ModelSpec.model_fields[name].annotation: name for name in ModelSpec.model_fields}
FAMILIES = [
    family for family in vars(labkit.components).values() if isinstance(family, type) and Choice in family.__bases__
]
BASE = ModelSpec(
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


def variants() -> Iterator[Any]:
    """Every variant at its defaults, and at every other value of its literals and booleans."""
    for family in FAMILIES:
        for kind, variant in family.variants.items():
            fields = variant.model_fields
            required = {name: SIZES[name] for name, field in fields.items() if field.is_required()}
            yield pytest.param((family, variant(**required)), id=f"{family.__name__}-{kind}")
            for name, field in fields.items():
                for value in others(field.annotation, field.default):
                    yield pytest.param(
                        (family, variant(**required, **{name: value})), id=f"{family.__name__}-{kind}-{name}={value}"
                    )


def others(annotation: Any, default: Any) -> list[Any]:
    if annotation is bool:
        return [not default]
    values = getattr(annotation, "__args__", ()) if "Literal" in str(annotation) else ()
    return [value for value in values if value != default]


@pytest.fixture(params=list(variants()))
def spec(request: pytest.FixtureRequest) -> ModelSpec:
    family, variant = request.param
    return BASE.patched({FIELDS[family]: variant})


@pytest.fixture
def model(spec: ModelSpec) -> Transformer:
    model = Transformer(spec, 11)
    model.initialize(0)
    return model


def tokens() -> torch.Tensor:
    return torch.randint(11, (2, 16), generator=torch.Generator().manual_seed(1))


def test_every_family_of_the_model_is_in_the_registry() -> None:
    assert set(FAMILIES) == {kind for kind in FIELDS if isinstance(kind, type) and issubclass(kind, Choice)}


def test_it_builds_without_memory_and_its_counted_parameters_are_the_real_ones(spec, model) -> None:
    assert costs(spec, 11).params == sum(p.numel() for p in model.parameters())


def test_it_keeps_shape_and_precision(model) -> None:
    assert model(tokens()).shape == (2, 16, 11)
    for stored in model.parameters():
        if stored.ndim > 1:
            stored.data = stored.data.bfloat16()
    logits = model(tokens())
    assert (logits.shape, logits.dtype) == ((2, 16, 11), torch.bfloat16)
    assert logits.isfinite().all()


@pytest.mark.parametrize("at", [1, 7, 15])
def test_the_future_does_not_change_the_past(model, at: int) -> None:
    before, changed = tokens(), tokens()
    changed[:, at:] = (changed[:, at:] + 1) % 11
    torch.testing.assert_close(model(before)[:, :at], model(changed)[:, :at])
    assert not torch.allclose(model(before)[:, at:], model(changed)[:, at:])


def test_gradients_reach_every_parameter_and_are_finite(model) -> None:
    for stored in model.parameters():
        torch.nn.init.normal_(stored, mean=1.0 if stored.ndim == 1 else 0.0, std=0.2)
    model.losses(tokens(), tokens().roll(-1, 1)).mean().backward()
    for name, stored in model.named_parameters():
        assert stored.grad is not None, name
        assert stored.grad.isfinite().all(), name
        assert stored.grad.abs().sum() > 0, name


def test_its_spec_survives_json(spec) -> None:
    assert ModelSpec.from_json(spec.as_json()) == spec


def test_its_parameters_have_names_and_roles_of_their_own(model) -> None:
    views = logical(model)
    assert sum(view.numel() for view in views.values()) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_its_docstring_is_a_sentence_with_a_formula_or_a_source(family: type[Choice]) -> None:
    for variant in family.variants.values():
        lines = (variant.__doc__ or "").strip().splitlines()
        assert len(lines) == 1, variant
        assert lines[0].endswith("."), variant
        assert re.search(SOURCE, lines[0]) or re.search(FORMULA, lines[0]), variant
