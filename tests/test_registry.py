"""Every variant of every family of labkit, which is found and held to its word by existing."""

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import pytest

import labkit
from labkit.spec import Choice, Spec

for found in pkgutil.walk_packages(labkit.__path__, "labkit."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)

REQUIRED: dict[str, Any] = {
    "n_experts": 4,
    "top_k": 2,
    "factor": 2.0,
    "value": 0.25,
    "kv_rank": 8,
    "rope_dim": 4,
    "n_heads": 4,
    "n_kv_heads": 2,
    "path": "somewhere",
    "names": ("torch",),
    "name": "CmaEsSampler",
    "vocab_size": 300,
    "tokens": 1000,
    "steps": 10,
    "flops": 1e9,
}
"""Values for the fields that a variant requires."""


def of_labkit(kind: type) -> bool:
    return kind.__module__.startswith("labkit.")


def subclasses(kind: type[Spec]) -> Iterator[type[Spec]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


def mentions(annotation: Any, family: type) -> bool:
    return annotation is family or any(mentions(argument, family) for argument in get_args(annotation))


@cache
def holder(family: type[Choice]) -> Any:
    """A spec with a place for the family."""
    return type("Holder", (Spec,), {"__module__": __name__, "__annotations__": {"held": family}})


@cache
def schemas(family: type[Choice]) -> dict[type[Spec], set[str]]:
    """Every spec of labkit's that has a place for the family, and the kinds in its schema."""
    parents = [
        spec
        for spec in subclasses(Spec)
        if of_labkit(spec) and any(mentions(field.annotation, family) for field in spec.model_fields.values())
    ]
    definitions = {parent: parent.model_json_schema()["$defs"].values() for parent in parents}
    return {
        parent: {definition["properties"].get("kind", {}).get("const") for definition in found}
        for parent, found in definitions.items()
    }


FAMILIES = sorted(filter(of_labkit, Choice.__subclasses__()), key=lambda family: family.__name__)
VARIANTS = [
    pytest.param(family, variant, id=f"{family.__name__}-{kind}")
    for family in FAMILIES
    for kind, variant in family.variants.items()
    if of_labkit(variant)
]


def test_the_families_are_all_there() -> None:
    known = "Attention Budget Corpus FeedForward Head Init Norm Optimizer Parametrization Position Residual Schedule"
    assert {family.__name__ for family in FAMILIES} >= {*known.split(), "Tokenizer"}
    assert all(len(family.variants) > 0 for family in FAMILIES)


def test_a_family_is_a_public_word_so_that_a_file_of_ones_own_can_add_to_it() -> None:
    assert {family.__name__: family for family in FAMILIES} == {
        family.__name__: getattr(labkit, family.__name__, None) for family in FAMILIES
    }


@pytest.mark.parametrize(("family", "variant"), VARIANTS)
def test_a_variant_survives_json_by_itself_and_through_its_family(family: type[Choice], variant: type[Choice]) -> None:
    required = {name: REQUIRED[name] for name, field in variant.model_fields.items() if field.is_required()}
    one = variant(**required)
    text = json.dumps(holder(family)(held=one).as_json())
    again = holder(family).from_json(json.loads(text)).held
    assert type(again) is variant
    assert (again, again.fingerprint) == (one, one.fingerprint) == (variant.from_json(one.as_json()), one.fingerprint)


@pytest.mark.parametrize(("family", "variant"), VARIANTS)
def test_a_variant_says_in_one_sentence_what_it_is(family: type[Choice], variant: type[Choice]) -> None:
    assert "__doc__" in vars(variant)
    summary, *_ = (variant.__doc__ or "").strip().split("\n\n")
    assert re.fullmatch(r"[^\n]{12,}[^.\s]\.", summary), summary
    assert not re.search(r"\. [A-Z]", summary), summary
    assert variant.__doc__ != family.__doc__


@pytest.mark.parametrize(("family", "variant"), VARIANTS)
def test_a_variant_stands_in_the_schema_of_every_spec_that_can_hold_it(
    family: type[Choice], variant: type[Choice]
) -> None:
    (kind,) = get_args(variant.model_fields["kind"].annotation)
    assert schemas(family)
    for parent, kinds in schemas(family).items():
        assert kind in kinds, parent
