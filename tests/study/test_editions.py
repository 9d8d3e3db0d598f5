"""Editions: what the command line changes has a name of its own."""

import re
from pathlib import Path

import pytest

from labkit.spec import Mistake
from labkit.study.editions import Asked, assignment, edition
from labkit.study.loading import Loaded, load


@pytest.fixture
def loaded(project: Path) -> Loaded:
    return load(project / "experiments" / "theta.py")


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (Asked(), "main"),
        (Asked(seeds=5), "main"),
        (Asked(baseline="pico"), "main"),
        (Asked(sets=["clip=1"]), "main"),
        (Asked(baseline="wide"), "wide"),
        (Asked(baseline="experiments.baselines:wide"), "experiments.baselines.wide"),
        (Asked(steps=7), "steps=7"),
        (Asked(sets=["budget.steps=7"]), "steps=7"),
        (Asked(sets=['budget={"kind": "steps", "steps": 7}']), "steps=7"),
        (Asked(sets=['budget={"kind": "tokens", "tokens": 4096}']), "budget=tokens-tokens=4096"),
        (Asked(sets=["optimizer.lr=1e-2", "model.norm=layer"]), "model.norm=layer+optimizer.lr=0.01"),
        (Asked(sets=["model.norm=layer", "optimizer.lr=0.01"]), "model.norm=layer+optimizer.lr=0.01"),
        (Asked(baseline="wide", sets=["clip=0.5"], steps=7), "wide+clip=0.5+steps=7"),
    ],
)
def test_an_edition_is_named_by_what_differs(loaded: Loaded, asked: Asked, name: str) -> None:
    assert edition(loaded, asked)[1] == name


def test_what_is_set_holds_for_every_arm(loaded: Loaded) -> None:
    made, _ = edition(loaded, Asked(baseline="wide", sets=["model.norm=layer"], seeds=3))
    assert {(arm.spec.model.d_model, arm.spec.model.norm.label) for arm in made.experiment.arms} == {(32, "layer")}
    assert made.experiment.seed_list == (0, 1, 2)


def test_a_variant_that_the_command_line_makes_the_baseline_is_folded(loaded: Loaded) -> None:
    made, _ = edition(loaded, Asked(sets=["model.position.theta=1000"]))
    assert made.experiment.folded == ("theta=1000",)


def test_long_names_are_shortened_and_stay_apart(loaded: Loaded) -> None:
    sets = ["model.position.fraction=0.5", "model.attention.bias=true", "optimizer.weight_decay=0.01", "optimizer.lr="]
    one, two = (edition(loaded, Asked(sets=[*sets[:3], sets[3] + lr]))[1] for lr in ("0.1", "0.2"))
    assert len(one) <= 80
    assert one != two


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=1", 1), ("a=1e3", 1e3), ("a=rms", "rms"), ("a=[2]", [2]), ("a=b=c", "b=c"), ("a=null", None)],
)
def test_a_value_is_json_or_else_a_string(text: str, value: object) -> None:
    assert assignment(text) == ("a", value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('a={"kind":"mha","n_heads":2', "the value begins like JSON and is none, at its end: Expecting ',' delimiter"),
        ("a={kind:mha}", "the value begins like JSON and is none, before 'kind:mha}': Expecting property name"),
        ("a= [1,2", "the value begins like JSON and is none, at its end"),
        ('a="x', "the value begins like JSON and is none, before '\"x': Unterminated string"),
        ("a=[ab]*.txt", "before 'ab]*.txt': Expecting value; a text is written \"[ab]*.txt\""),
        ('a=[{"b": 1, "b": 2}]', "'b' stands twice in one object; write it once"),
        ('a={"": 1, "": 2}', "'' stands twice in one object; write it once"),
        ("a=" + "[" * 100_000, "--set a=…: the value is nested too deeply"),
    ],
)
def test_what_begins_like_json_and_is_none_is_told_with_where_it_breaks(text: str, told: str) -> None:
    with pytest.raises(Mistake, match=re.escape(told)):
        assignment(text)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Asked(sets=["clip"]), "--set clip: write path=value"),
        (Asked(sets=["clip=1", "clip=2"]), "--set clip=2: clip is set twice"),
        (Asked(sets=["model.norn=rms"]), "--set model.norn: .* Did you mean 'norm'"),
        (Asked(sets=["clip=x"]), "--set: clip"),
        (Asked(sets=["seed=3"]), "--set seed=3: .* write --seeds N"),
        (Asked(sets=["budget.steps=3"], steps=3), "--steps 3: the budget is set twice"),
        (Asked(baseline="wid"), "--baseline wid: .* Did you mean 'wide'"),
        (Asked(baseline="nowhere:wide"), "--baseline nowhere:wide: ModuleNotFoundError"),
        (Asked(sets=["model.position=none"]), r"theta\.py: variant model.position.theta = 1000.*no field 'theta'"),
    ],
)
def test_a_mistake_names_the_option(loaded: Loaded, asked: Asked, told: str) -> None:
    with pytest.raises(Mistake, match=told):
        edition(loaded, asked)
