"""Sizes by their paths: found, moved, and said."""

from typing import Any

import pytest

from experiments.baselines import nano
from labkit.components.feedforward import Gelu
from labkit.components.moe import Moe
from labkit.spec import Mistake, ValidationError
from labkit.study.sizes import fixed_layers, gives, place_of, size_at, step_of, with_size

D_FF, EXPERT = "model.feedforward.d_ff", "model.feedforward.expert.d_ff"
MIXTURE = {"model.feedforward": {"kind": "moe", "n_experts": 4, "top_k": 2}}


def layers(changes: dict[str, Any], size: int) -> list[int | None]:
    """The hidden width of each of four layers after a move."""
    spec = with_size(nano.patched({"model.n_layers": 4, **changes}), D_FF, size)
    alone = [spec.model_copy(update={"model": layer}) for layer in spec.model.layers]
    return [size_at(layer, place_of(layer, D_FF)) for layer in alone]


@pytest.mark.parametrize(
    ("changes", "named", "path", "size", "step"),
    [
        ({}, D_FF, D_FF, 176, 8),
        ({"model.feedforward": "gelu"}, D_FF, D_FF, 256, 8),
        (MIXTURE, D_FF, EXPERT, 176, 8),
        (MIXTURE, "model.feedforward.n_experts", "model.feedforward.n_experts", 4, 1),
        ({}, "model.n_layers", "model.n_layers", 3, 1),
        ({}, "model.d_model", "model.d_model", 64, 8),
        ({}, "model.attention.head_dim", "model.attention.head_dim", 16, 1),
        ({}, "budget.steps", "budget.steps", 1200, 1),
        ({}, "batch_size", "batch_size", 2, 1),
    ],
)
def test_a_size_is_found_where_it_stands(changes: Any, named: str, path: str, size: int, step: int) -> None:
    spec = nano.patched(changes)
    assert place_of(spec, named) == path
    assert (size_at(spec, path), step_of(spec, path)) == (size, step)
    assert size_at(with_size(spec, named, 2 * size), path) == 2 * size


@pytest.mark.parametrize("named", ["model.feedforward.ff", "model.norm", "model.norm.eps", "model.mlp.d_ff", "clip"])
def test_what_is_no_size_is_nowhere(named: str) -> None:
    assert place_of(nano, named) == ""


@pytest.mark.parametrize(
    ("pattern", "widths"),
    [
        ([{}, {"attention.window": 8}], [96, 96, 96, 96]),
        ([{}, {"feedforward": "gelu"}], [96, 136, 96, 136]),
        ([{}, {"feedforward": {"kind": "gelu", "d_ff": 48}}], [96, 48, 96, 48]),
        ([{}, {"feedforward.d_ff": 40}], [96, 40, 96, 40]),
        ([{}, {"feedforward.multiplier": 1.0}], [96, 32, 96, 32]),
        ([{}, {"feedforward": {"kind": "moe", "n_experts": 2, "top_k": 1}}], [96, 96, 96, 96]),
    ],
)
def test_layers_of_their_own_width_follow_in_proportion_unless_they_say_it(pattern: Any, widths: list[int]) -> None:
    assert layers({"model.pattern": pattern}, 96) == widths


def test_layers_that_do_not_follow_are_known() -> None:
    pattern = [{}, {"feedforward.d_ff": 40}, {"feedforward": "gelu"}, {"attention.window": 8}]
    spec = nano.patched({"model.n_layers": 4, "model.pattern": pattern})
    assert fixed_layers(spec, D_FF) == ["pattern.1"]
    assert fixed_layers(spec, "model.feedforward.expert.d_ff") == ["pattern.1", "pattern.2"]
    assert fixed_layers(spec, "model.n_layers") == []


def test_a_mixture_moves_its_experts_and_dense_layers_with_them() -> None:
    assert layers({**MIXTURE, "model.pattern": [{}, {"feedforward": "swiglu"}]}, 88) == [88, 88, 88, 88]


def test_a_pattern_that_nothing_changes_stays_as_it_is_written() -> None:
    spec = nano.patched({"model.pattern": [{}, {"attention.window": 8}]})
    assert with_size(spec, D_FF, 96).differences(spec) == {D_FF: ("96", "None")}


@pytest.mark.parametrize(
    ("changes", "path", "said"),
    [
        ({D_FF: 64}, D_FF, True),
        ({D_FF: None}, D_FF, False),
        ({"model.feedforward": "gelu"}, D_FF, False),
        ({"model.feedforward": {"kind": "gelu", "d_ff": 64}}, D_FF, True),
        ({"model.feedforward": {"kind": "gelu", "multiplier": 2.0}}, D_FF, True),
        ({"model.feedforward.multiplier": 2.0}, D_FF, True),
        ({"model.feedforward.multiple_of": 64}, D_FF, False),
        ({"model.feedforward": Gelu()}, D_FF, False),
        ({"model.feedforward": Gelu(d_ff=64)}, D_FF, True),
        ({"model.feedforward": Moe(n_experts=4, top_k=2)}, EXPERT, False),
        ({"model.feedforward": {"kind": "moe", "expert": {"kind": "gelu", "d_ff": 8}}}, EXPERT, True),
        ({"model.d_model": 64}, D_FF, False),
    ],
)
def test_changes_say_a_size_or_leave_it_open(changes: Any, path: str, said: bool) -> None:
    assert gives(changes, path) is said


def test_what_cannot_be_of_a_size_raises() -> None:
    with pytest.raises((Mistake, ValidationError)):
        with_size(nano, "model.d_model", 72 + 2)
