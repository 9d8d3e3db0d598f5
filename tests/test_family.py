"""What a class of a user's own lacks of its family is told where it is defined, with the lines to write."""

from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from labkit import (
    Attention,
    Choice,
    Corpus,
    FeedForward,
    Gate,
    Init,
    Norm,
    Optimizer,
    Position,
    Residual,
    Schedule,
    Tokenizer,
)
from labkit.components import Head, ScoreScale
from labkit.components.norm import Rms
from labkit.search.pruners import Pruner
from labkit.search.samplers import Sampler
from labkit.spec import Mistake
from labkit.study.loading import load
from labkit.train.run import Budget

pytestmark = pytest.mark.usefixtures("own_imports")


def made(family: type[Choice], **members: Any) -> type[Choice]:
    annotations = {"kind": Literal["mine"]}
    return type("Mine", (family,), {"__module__": __name__, "__annotations__": annotations, "kind": "mine", **members})


DUE: dict[type[Choice], str] = {
    Attention: "kv_heads; write  @property def kv_heads(self) -> int",
    Budget: "whole_steps; write  def whole_steps(self, tokens_per_step: int, flops_per_token: float) -> int",
    Corpus: "resolve; write  def resolve(self, base: Path, progress: Progress) -> Source",
    FeedForward: "build; write  def build(self, width: int, place: Place) -> nn.Module",
    Head: "build; write  def build(self, vocab_size: int, width: int) -> nn.Module",
    Init: "scale; write  def scale(self, part: Part, place: Place, width: int) -> float",
    Norm: "build; write  def build(self, width: int, place: Place) -> nn.Module",
    Optimizer: "build; write  def build(self, weights: Iterable[Weight]) -> Stepper",
    Pruner: "build; write  def build(self, points: int) -> 'BasePruner'",
    Residual: "flow and norms_at_the_end; write  def flow(self, branches: Branches, stream: Stream) -> None  and  "
    "norms_at_the_end: ClassVar[bool] = …",
    Sampler: "build; write  def build(self, space: Space, seed: int, number: int) -> 'BaseSampler'",
    Schedule: "after; write  def after(self, step: int, steps: int) -> float",
    ScoreScale: "factor; write  def factor(self, features: float) -> float",
    Tokenizer: "size and encoder; write  def size(self, base: Path) -> int  and  "
    "def encoder(self, base: Path, training: Iterable[str]) -> Encoder",
}


@pytest.mark.parametrize("family", DUE, ids=lambda family: family.__name__)
def test_what_a_class_of_ones_own_lacks_is_told_with_what_to_write(family: type[Choice]) -> None:
    with pytest.raises(Mistake) as caught:
        made(family)
    assert str(caught.value).replace(" an ", " a ") == f"Mine is a {family.__name__} without {DUE[family]}"
    assert "mine" not in family.variants


def test_a_family_that_leaves_nothing_due_takes_a_class_that_defines_nothing() -> None:
    free = {family for family in Choice.__subclasses__() if family.__module__.startswith("labkit.")} - DUE.keys()
    for family in free:
        made(family)
    assert free >= {Gate, Position}


def test_what_a_replaced_method_asks_for_is_not_due() -> None:
    made(Schedule, factor=lambda self, step, steps: 1.0)
    made(Attention, fault=lambda self, width: None)


@pytest.mark.parametrize(
    ("family", "members", "told"),
    [
        (Norm, {"build": lambda self, width: None}, r"Mine\.build is not what a Norm has; write  def build\(self, wid"),
        (Attention, {"kv_heads": lambda self: 1}, r"Mine\.kv_heads .* write  @property def kv_heads\(self\) -> int$"),
        (Norm, {"build": property(lambda self: None)}, r"Mine\.build is not what a Norm has"),
    ],
)
def test_what_is_defined_as_something_else_is_told(family: type[Choice], members: dict[str, Any], told: str) -> None:
    with pytest.raises(Mistake, match=told):
        made(family, **members)


def test_other_names_of_parameters_and_more_of_them_are_let_pass() -> None:
    made(Norm, build=lambda self, d, where, eps=1e-6: None)
    made(Residual, flow=lambda self, *parts: None, norms_at_the_end=True)


@pytest.mark.parametrize(
    ("base", "member", "line"),
    [
        (Norm, ("kind", "mine"), 'needs a kind of one name: write  kind: Literal["mine"] = "mine"'),
        (Rms, ("kind", "mine"), 'needs a kind of one name: write  kind: Literal["mine"] = "mine"'),
        (Norm, ("eps", 1e-5), ".eps has no type: write  eps: Number = 1e-05"),
        (Norm, ("centred", True), ".centred has no type: write  centred: bool = True"),
    ],
)
def test_a_field_without_a_type_is_told_as_the_line_to_write(
    base: type[Choice], member: tuple[str, Any], line: str
) -> None:
    known = dict(Norm.variants)
    with pytest.raises(TypeError) as caught:
        type("Mine", (base,), {"__module__": __name__, "build": lambda self, width, place: None, **dict([member])})
    assert str(caught.value).removeprefix("Mine").strip() == line
    assert Norm.variants == known


def test_constants_methods_and_what_is_private_need_none() -> None:
    made(Residual, flow=lambda self, *parts: None, norms_at_the_end=True, _remembered=3, again=property(lambda _: 1))


def test_a_class_in_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "lacking_of_mine.py"
    file.write_text(
        "from typing import Literal\nfrom labkit import Norm\n\n\nclass Mine(Norm):\n    kind: Literal['m'] = 'm'\n"
    )
    with pytest.raises(Mistake, match=r"lacking_of_mine\.py:5: Mine is a Norm without build; write  def build"):
        load(file)


def test_what_a_class_in_between_defines_is_not_due() -> None:
    made(made(Residual, flow=lambda self, branches, stream: None, norms_at_the_end=True))


@pytest.mark.parametrize(
    ("annotation", "default", "told"),
    [
        (float, float("nan"), "Mine.f is nan by default: input should be a finite number"),
        (int, "x", "Mine.f is 'x' by default: input should be a valid integer"),
        (Path, None, "Mine.f cannot have the type pathlib.Path: a field is a number, a string, a boolean, a tuple of"),
        (set[str], {"a"}, "Mine.f cannot have the type set[str]: a field is a number"),
        (tuple[list[int], ...], (), "Mine.f cannot have the type tuple[list[int], ...]: a field is a number"),
        ("Any", 2, "Mine.f cannot have the type typing.Any: a field is a number"),
        (dict[str, int], {}, "Mine.f cannot have the type dict[str, int]: a field is a number"),
        ("Missing", 2, "Mine.f: nothing is called Missing there; import it above the class"),
    ],
)
def test_a_field_that_no_spec_can_have_is_told_where_it_is_defined(annotation: Any, default: Any, told: str) -> None:
    body = {"__module__": __name__, "__annotations__": {"kind": Literal["mine"], "f": annotation}, "kind": "mine"}
    with pytest.raises(TypeError) as caught:
        type("Mine", (Position,), {**body, "f": default})
    assert str(caught.value).startswith(told)
    assert "mine" not in Position.variants


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (int | None, None),
        (Literal["a", "b"], "a"),
        (tuple[float, ...], (1.0,)),
        (ClassVar[set[str]], {"a"}),
        ("int | None", 3),
        (Norm, "below"),
    ],
)
def test_a_field_that_a_spec_can_have_is_let_pass(annotation: Any, default: Any) -> None:
    body = {"__module__": __name__, "__annotations__": {"kind": Literal["mine"], "f": annotation}, "kind": "mine"}
    type("Mine", (Position,), {**body, "f": default})


@pytest.mark.parametrize("name", ["patched", "label", "variants", "copy"])
def test_a_field_that_would_hide_what_every_spec_has_is_refused(name: str) -> None:
    body = {"__module__": __name__, "__annotations__": {"kind": Literal["mine"], name: int}, "kind": "mine"}
    with pytest.raises(TypeError, match=rf"Mine\.{name}: \w+ has something of this name; rename the field"):
        type("Mine", (Position,), body)


@pytest.mark.parametrize("kind", ["", "mi ne/é..", "a-b", "2"])
def test_a_kind_that_cannot_stand_in_names_and_paths_is_refused(kind: str) -> None:
    body = {"__module__": __name__, "__annotations__": {"kind": Literal[kind]}, "kind": kind}  # pyright: ignore
    with pytest.raises(TypeError, match=r"Mine has the kind .* write letters, digits and _"):
        type("Mine", (Position,), body)
