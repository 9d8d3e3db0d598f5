import random

import pytest

from labkit.components.position import Rope
from labkit.search.ranges import choice, integers, log_uniform, uniform
from labkit.search.space import Space
from labkit.spec import Mistake
from tests.specs import SMALL

WHAT = "scientific"
POSITION = ["none", {"kind": "rope", "theta": choice([1e3, 1e5])}]


def test_a_list_of_very_many_values_is_refused_at_once() -> None:
    with pytest.raises(Mistake, match="these are more than 1,000 values; write fewer, or integers"):
        choice(range(10**30))


def test_every_combination_of_a_finite_space_comes_once_and_what_a_choice_brings_only_with_it() -> None:
    space = Space.of(WHAT, {"position": POSITION, "norm": ["rms", "layer"], "n_layers": integers(1, 5, 2)})
    points = list(space.points())
    assert len(points) == space.size == (1 + 2) * 2 * 3
    assert len({tuple(point.items()) for point in points}) == len(points)
    assert all(("position.rope.theta" in point) == (point["position"] == "rope") for point in points)
    assert list(space.every) == ["position", "position.rope.theta", "norm", "n_layers"]
    assert space.is_finite
    assert space.is_conditional


def test_the_changes_of_a_point_make_the_spec_that_it_means() -> None:
    space = Space.of(WHAT, {"position": POSITION, "norm": ["rms", "layer"]})
    spec = SMALL.patched(space.changes({"position": "rope", "position.rope.theta": 1e3, "norm": "layer"}))
    assert (spec.position.label, spec.norm.label) == ("rope(theta=1000)", "layer")


def test_values_are_known_by_their_kind_and_where_kinds_are_alike_by_what_differs_between_them() -> None:
    specs = [{"kind": "gqa", "n_heads": 4, "n_kv_heads": 2}, {"kind": "gqa", "n_heads": 4, "n_kv_heads": 1}]
    assert choice(["mha", *specs]).values == ("mha", "gqa(n_kv_heads=2)", "gqa(n_kv_heads=1)")
    assert choice(["mha", specs[0]]).values == ("mha", "gqa")
    qk = choice(["none", "rms"])
    more = [{**specs[0], "qk_norm": qk}, {**specs[1], "qk_norm": qk}, {**specs[0], "qk_norm": "rms"}]
    words = ["2, qk_norm=none, rms", "1, qk_norm=none, rms", "2, qk_norm=rms"]
    assert choice(more).values == tuple(f"gqa(n_kv_heads={one})" for one in words)
    assert choice([{**specs[0], "qk_norm": qk}, specs[1]]).values == ("gqa(n_kv_heads=2)", "gqa(n_kv_heads=1)")
    rope = [Rope(), {"kind": "rope", "theta": 1e6}, {"kind": "rope", "theta": log_uniform(1e3, 1e5)}, "none"]
    assert choice(rope).values == ("rope", "rope(theta=1e+06)", "rope(theta=1000 to 100000, logarithmic)", "none")
    near = choice([{"kind": "rope", "theta": 1000000.4}, {"kind": "rope", "theta": 1000000.5}])
    assert near.values == ("rope(theta=1000000.4)", "rope(theta=1000000.5)")
    assert choice([{"d": 1}, {"d": 2}]).values == ("(d=1)", "(d=2)")
    assert choice([None, 0.5, 1, True]).values == (None, 0.5, 1, True)


@pytest.mark.parametrize(
    ("below", "edges"),
    [
        (uniform(0.0, 1.0), {0.0: "lower", 0.04: "lower", 0.06: "", 0.94: "", 0.96: "upper"}),
        (log_uniform(1e-4, 1e-2), {1.2e-4: "lower", 1.3e-4: "", 1e-3: "", 7.9e-3: "", 8e-3: "upper"}),
        (integers(2, 9, 3), {2: "lower", 5: "", 8: "upper"}),
        (choice(["a", "b"]), {"a": "", "b": ""}),
    ],
)
def test_a_value_near_an_end_of_its_range_is_at_its_edge(below: object, edges: dict[object, str]) -> None:
    assert {value: below.edge(value) for value in edges} == edges  # type: ignore[attr-defined]


def test_one_spec_written_twice_is_refused_however_it_is_written() -> None:
    for other in ({"kind": "rope"}, Rope()):
        with pytest.raises(Mistake, match="choice: 'rope' stands there twice"):
            choice(["rope", other])


def test_a_space_that_changes_has_another_description() -> None:
    one, two = (Space.of(WHAT, {"norm": norms}).as_json() for norms in (["rms"], ["rms", "layer"]))
    assert one != two
    assert Space.of(WHAT, {"norm": ["rms"]}).as_json() == one


def test_a_value_that_only_works_beside_others_is_no_mistake() -> None:
    Space.of(WHAT, {"d_model": [36], "attention.n_heads": [6], "attention.n_kv_heads": [3]}).check(WHAT, SMALL)


def test_what_is_drawn_lies_in_the_space() -> None:
    space = Space.of(WHAT, {"position": POSITION, "n_layers": integers(1, 3)})
    for seed in range(20):
        SMALL.patched(space.drawn(random.Random(seed)))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"nrm": ["rms"]}, r"scientific: nrm: ModelSpec has no field 'nrm'\. Did you mean 'norm'"),
        ({"norm": ["rmss"]}, r"scientific: norm: unknown Norm kind 'rmss'\. Did you mean 'rms'"),
        ({"n_layers": integers(0, 3)}, r"scientific: n_layers: Input should be greater than 0 \(got 0\)"),
        ({"position": [{"kind": "rope", "thet": uniform(1, 2)}]}, r"position\.thet: no such field\. Did you mean"),
        ({"attention.n_kv_heads": [3]}, r"scientific: attention.*3"),
        ({"norm": []}, r"scientific: norm: this list is empty; write the values to try"),
        (
            {"norm": "rms"},
            r"scientific: norm: 'rms' is one value; write a list of .*, such as \{'norm': \['rms', \.\.\.\]\}",
        ),
        ({"clip": [float("nan")]}, r"scientific: clip: choice: nan is no finite number; leave it out"),
        ({"norm": ["rms", "rms"]}, r"scientific: norm: choice: 'rms' stands there twice"),
        ({"seed.init": [1, 2]}, r"scientific: seed\.init: a seed is nothing to choose"),
        ({"norm..eps": [1]}, r"scientific: 'norm\.\.eps' is no path"),
        (["norm"], r"scientific: expected \{path: choices\}"),
    ],
)
def test_bad_input_is_told_with_its_place_and_a_remedy(given: object, told: str) -> None:
    with pytest.raises(Mistake, match=told):
        Space.of(WHAT, given).check(WHAT, SMALL)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: uniform(2, 1), r"uniform\(2, 1\): this range is upside down; write uniform\(1, 2\)"),
        (lambda: uniform(1, 1), r"uniform\(1, 1\): this range is empty; write the value itself"),
        (lambda: log_uniform(0, 1), r"log_uniform\(0, 1\): a logarithm needs a low end above 0"),
        (lambda: uniform(0, float("inf")), r"expected two finite numbers"),
        (lambda: uniform("0", 1), r"uniform\('0', 1\): expected two finite numbers"),  # type: ignore[arg-type]
        (lambda: integers(1, 2.5), r"integers\(1, 2\.5\): expected whole numbers"),  # type: ignore[arg-type]
        (lambda: integers(5, 2), r"integers\(5, 2\): this range is upside down; write integers\(2, 5\)"),
        (lambda: uniform(0, 10**400), r"uniform\(0, 10* … 0*\): expected two finite numbers"),
        (lambda: uniform(0, 10**5000), r"uniform\(0, a number of very many digits\): expected two finite numbers"),
        (lambda: integers(0, 10**400), r"integers\(0, 10* … 0*\): expected two finite numbers"),
        (lambda: choice([float("nan")]), r"choice: nan is no finite number"),
        (lambda: choice([10**400]), r"choice: 10* … 0* is no finite number"),
        (uniform, r"uniform: missing a required argument: 'low'; write uniform\(0\.0, 0\.1\)"),
        (lambda: log_uniform(0), r"log_uniform: missing a required argument: 'high'; write log_uniform"),  # type: ignore[call-arg]
        (lambda: uniform(0, 1, 2), r"uniform: too many positional arguments; write uniform"),  # type: ignore[call-arg]
        (lambda: choice("a", "b"), r"choice: too many positional arguments; write choice\(\['layer', 'rms'\]\)"),  # type: ignore[call-arg]
        (lambda: integers(0, 10**9), r"more than 1,000,000 values"),
    ],
)
def test_a_range_that_is_none_is_told(call: object, told: str) -> None:
    with pytest.raises(Mistake, match=told):
        call()  # type: ignore[operator]
