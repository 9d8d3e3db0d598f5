"""Matching: what variants have in common is counted and brought about; the nearest is held against every grid point."""

from pathlib import Path
from typing import Any

import pytest

from experiments.baselines import nano
from labkit import Experiment
from labkit.spec import Mistake
from labkit.study.counting import Counted, counted
from labkit.study.experiment import Arm
from labkit.study.matching import matched
from labkit.study.scaling import LAWS
from labkit.study.sizes import with_size
from labkit.train.run import RunSpec

D_FF = "model.feedforward.d_ff"
GELU = {"model.feedforward": "gelu"}
MQA = {"model.attention": {"kind": "mqa", "n_heads": 4}}
MOE = {"model.feedforward": {"kind": "moe", "n_experts": 4, "top_k": 2}}
UNTIED = {"model.head": "untied"}
MIXED = {"model.pattern": [{}, {"feedforward": "gelu"}, {"attention.window": 8}]}
HERE = Path()


def study(variants: Any, match: str, baseline: RunSpec = nano, **fields: Any) -> Experiment:
    return Experiment(baseline=baseline, variants=variants, seeds=2, metric="val/loss", match=match, **fields)


def only(changes: Any, match: str, baseline: RunSpec = nano, **fields: Any) -> Counted:
    _, variant = matched(study({"mine": changes}, match, baseline, **fields), HERE)
    return variant


def quantity(spec: RunSpec, match: str) -> float:
    return counted(Arm("x", spec, {}), HERE).quantity(match)


@pytest.mark.parametrize("match", ["params", "flops", "non_embedding", "active_params"])
@pytest.mark.parametrize("changes", [GELU, MQA, MOE, UNTIED], ids=["gelu", "mqa", "moe", "untied"])
def test_no_grid_point_is_nearer_than_the_one_that_is_found(changes: Any, match: str) -> None:
    found = only(changes, match, tolerance=0.9)
    target = quantity(nano, match)
    written = nano.patched(changes)
    grid = {size: quantity(with_size(written, D_FF, size), match) for size in range(8, 401, 8)}
    least = min(abs(quantity(written, match) - target), *(abs(count - target) for count in grid.values()))
    assert abs(found.quantity(match) - target) == least
    assert found.match is not None
    assert found.match.residual == found.quantity(match) / target - 1


def test_layers_of_their_own_kind_move_too() -> None:
    variant = only({**MQA, **MIXED}, "params", tolerance=0.9)
    widths = [layer.feedforward.hidden(64) for layer in variant.arm.spec.model.layers]
    assert widths[0] == widths[2] != 176
    assert widths[1] == 8 * round(256 * widths[0] / 176 / 8)
    assert variant.arm.changes["model.pattern"] == variant.arm.spec.model.pattern
    target = quantity(nano, "params")
    grid = [with_size(nano.patched({**MQA, **MIXED}), D_FF, size) for size in range(8, 401, 8)]
    assert abs(variant.costs.params - target) == min(abs(quantity(spec, "params") - target) for spec in grid)


def test_the_run_that_is_trained_is_the_matched_one() -> None:
    variant = only(GELU, "params")
    assert variant.arm.spec == nano.patched({**GELU, D_FF: 264})
    assert variant.arm.changes == {**GELU, D_FF: 264}
    assert (variant.arm.name, variant.arm.label) == ("mine", "mine, d_ff 264")
    assert variant.costs.params == quantity(nano, "params")
    match = variant.match
    assert match is not None
    assert (match.path, match.before, match.after, match.residual, match.nats) == (D_FF, 256, 264, 0, 0)
    assert match.written.arm.spec == nano.patched(GELU)
    assert match.unmatched == pytest.approx(-3072 / 167424)


def test_what_is_left_is_told_in_nats_by_the_law() -> None:
    match = only({"model.norm": "layer"}, "params").match
    assert match is not None
    here, there = 167_424, 167_424 + 7 * 64
    assert match.residual == there / here - 1
    assert match.nats == pytest.approx(406.4 / here**0.34 - 406.4 / there**0.34)
    assert match.as_json()["law"] == str(LAWS["params"])
    assert match.as_json()["residual_percent"] == pytest.approx(0.2676, abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"model.position.theta": 3.0}, "params"),
        ({"model.norm": "layer"}, "params"),
        ({**GELU, D_FF: 264}, "params"),
        ({"model.feedforward": {"kind": "gelu", "multiplier": 4.125}}, "params"),
        (GELU, "none"),
        ({"budget": {"kind": "flops", "flops": 7.967e11}}, "flops"),
    ],
)
def test_a_variant_that_matches_or_says_its_size_stays_as_it_is_written(changes: Any, match: str) -> None:
    variant = only(changes, match)
    assert variant.arm.spec == nano.patched(changes)
    assert variant.arm.label == "mine"


@pytest.mark.parametrize(
    ("changes", "match", "match_by", "label"),
    [
        ({D_FF: 88}, "params", "model.n_layers", "mine, n_layers 5"),
        (MQA, "flops", "budget.steps", "mine, steps 1312"),
        (MOE, "active_params", D_FF, "mine, expert d_ff 88"),
        ({"model.context": 512}, "flops", "batch_size", "mine, batch_size 1"),
    ],
)
def test_another_size_moves_where_it_is_named(changes: Any, match: str, match_by: str, label: str) -> None:
    variant = only(changes, match, match_by=match_by, tolerance=0.3)
    assert variant.arm.label == label


@pytest.mark.parametrize(
    ("changes", "match", "fields", "told"),
    [
        (UNTIED, "params", {}, ["d_ff comes nearest at 144, in steps of 8, 165,440", "167,424 (-1.2 %", "=0.012,"]),
        ({**GELU, D_FF: 512}, "params", {}, ["it says model.feedforward.d_ff itself", "+56.9 %"]),
        ({"model.feedforward.multiplier": 2.0}, "params", {}, ["it says model.feedforward.d_ff itself"]),
        ({"model.d_model": 32}, "params", {"match_by": "model.feedforward.x.d_ff"}, ["match_by: ", "is no size"]),
        (
            MQA,
            "params",
            {"match_by": "model.feedforward.n_experts"},
            ["match_by", "Did you mean 'model.feedforward.d_ff'"],
        ),
        (UNTIED, "params", {"match_by": "model.n_layers"}, ["no other model.n_layers", "such as '" + D_FF]),
        ({"budget.steps": 1300}, "flops", {"match_by": "model.attention.n_heads"}, ["no other model.attention"]),
        (MQA, "flops", {"tolerance": 0.0, "match_by": "budget.steps"}, ["comes nearest at", "tolerance is 0 %"]),
        (MQA, "params", {"tolerance": 2}, ["tolerance: ", "got 2; write 0.01"]),
        (MQA, "params", {"tolerance": "1 %"}, ["tolerance: ", "'1 %'"]),
        (MQA, "params", {"match_by": 5}, ["match_by=5: 5 is no path"]),
        (MQA, "params", {"match_bi": D_FF}, ["no argument 'match_bi'", "Did you mean 'match_by'"]),
    ],
)
def test_what_cannot_be_matched_is_refused_with_how_near_it_came(
    changes: Any, match: str, fields: Any, told: list[str]
) -> None:
    with pytest.raises(Mistake) as caught:
        only(changes, match, **fields)
    for part in told:
        assert part in str(caught.value)
    assert len(str(caught.value)) < 350


def test_a_layer_that_says_its_width_does_not_move_and_where_all_do_nothing_does() -> None:
    said = nano.patched({"model.pattern": [{"feedforward": {"kind": "swiglu", "d_ff": 176}}]})
    with pytest.raises(
        Mistake,
        match=r"no other model\.feedforward\.d_ff comes nearer than its 176 \(model\.pattern\.0 has its own\), 148,992",
    ):
        only(MQA, "params", said)


def test_a_variant_without_the_size_is_refused_where_another_has_it() -> None:
    grouped = {"model.attention": {"kind": "gqa", "n_heads": 4, "n_kv_heads": 4}}
    told = r"variant 'b': match='params' does not hold: it has no model\.attention\.n_kv_heads to move"
    with pytest.raises(Mistake, match=told):
        matched(study({"a": grouped, "b": MQA}, "params", match_by="model.attention.n_kv_heads"), HERE)


def test_two_variants_that_matching_makes_one_are_refused() -> None:
    with pytest.raises(Mistake, match="variant 'b': once matched it is the same as 'a'; leave one out"):
        matched(study({"a": {**MQA, D_FF: 208}, "b": MQA}, "params"), HERE)


def test_another_baseline_is_matched_anew() -> None:
    wide = nano.patched({"model.d_model": 128, "model.feedforward.multiple_of": 64})
    moved = study({"mine": GELU}, "params").on(wide)
    _, variant = matched(moved, HERE)
    assert variant.arm.spec == wide.patched({**GELU, D_FF: 3 * wide.model.feedforward.hidden(128) // 2})
