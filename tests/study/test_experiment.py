"""Experiments: arms, names, and what is refused."""

from typing import Any

import pytest

from labkit.components.norm import Layer, Rms
from labkit.spec import Mistake
from labkit.study.experiment import SHIFT, Experiment, between, cross, vary
from labkit.train.run import RunSpec


@pytest.fixture
def base() -> RunSpec:
    return RunSpec.from_json(
        {
            "model": {
                "d_model": 16,
                "n_layers": 1,
                "context": 32,
                "norm": "rms",
                "residual": "pre",
                "attention": {"kind": "mha", "n_heads": 2},
                "feedforward": {"kind": "swiglu", "multiple_of": 8},
                "position": {"kind": "rope", "theta": 10_000},
                "head": "tied",
                "init": "normal",
            },
            "data": {"corpus": "stdlib", "validation": 0.1},
            "tokenizer": "byte",
            "optimizer": {"kind": "adamw", "lr": 5e-3, "betas": (0.9, 0.95), "weight_decay": 0.1},
            "schedule": {"kind": "cosine", "warmup": 0.1, "final": 0.1},
            "budget": {"kind": "steps", "steps": 20},
            "batch_size": 4,
            "precision": "fp32",
        }
    )


def experiment(base: Any, variants: Any, **fields: Any) -> Experiment:
    words: dict[str, Any] = {"seeds": 2, "metric": "val/loss", "match": "none", **fields}
    return Experiment(baseline=base, variants=variants, **words)


def names(made: Experiment) -> list[str]:
    return [arm.name for arm in made.arms]


def test_very_many_arms_are_refused_at_once() -> None:
    with pytest.raises(Mistake, match="write a list of up to 1000 values to try"):
        vary("budget.steps", range(10**30))


def test_vary_names_an_arm_for_each_value(base: RunSpec) -> None:
    made = experiment(base, vary("model.position.theta", [1e3, 5e5]))
    assert names(made) == ["baseline", "theta=1000", "theta=500000"]
    assert made.arms[2].spec == base.patched({"model.position.theta": 5e5})
    assert [made.label(arm) for arm in made.arms] == ["theta=10000", "theta=1000", "theta=500000"]
    assert made.values(made.arms[1]) == {"model.position.theta": 1e3}


def test_the_baseline_among_the_values_gives_no_arm_of_its_own(base: RunSpec) -> None:
    made = experiment(base, vary("model.position.theta", [1e3, 1e4]))
    assert names(made) == ["baseline", "theta=1000"]
    assert made.folded == ("theta=10000",)


def test_cross_is_the_product_without_the_baseline(base: RunSpec) -> None:
    made = experiment(base, cross(vary("model.norm", ["rms", "layer"]), vary("model.position.theta", [1e4, 1e5])))
    assert names(made) == ["baseline", "norm=rms,theta=100000", "norm=layer,theta=10000", "norm=layer,theta=100000"]
    assert made.label(made.arms[0]) == "norm=rms,theta=10000"


def test_components_are_named_by_their_labels(base: RunSpec) -> None:
    made = experiment(base, vary("model.norm", [Rms(eps=1e-5), {"kind": "layer", "bias": False}]))
    assert names(made) == ["baseline", "norm=rms-eps=1e-05", "norm=layer-bias=False"]


def test_variants_may_be_changes_or_ready_specs(base: RunSpec) -> None:
    ready = base.patched({"model.norm": Layer(eps=1e-6), "optimizer.lr": 1e-3, "seed": 7})
    made = experiment(base, {"wider": {"model.d_model": 32}, "ready": ready})
    assert names(made) == ["baseline", "wider", "ready"]
    assert dict(made.arms[2].changes) == {"model.norm": Layer(eps=1e-6), "optimizer.lr": 1e-3}


def test_a_comparison_moves_to_another_baseline_with_its_changes(base: RunSpec) -> None:
    ready = base.patched({"model.norm": "layer"})
    moved = experiment(base, {"ready": ready}).on(base.patched({"model.d_model": 32}))
    assert moved.arms[1].spec == base.patched({"model.d_model": 32, "model.norm": "layer"})
    gone = experiment(base, {"ready": ready, "clip": {"clip": 0.5}}).on(ready)
    assert (names(gone), gone.folded) == (["baseline", "clip"], ("ready",))


def test_changes_between_specs_make_one_of_the_other(base: RunSpec) -> None:
    there = base.patched({"model.norm": "layer", "model.position.theta": 3.0, "evaluation.beyond": [2]})
    assert base.patched(between(base, there)) == there
    assert between(base, base) == {}


def test_arms_share_their_seeds_and_differ_by_them_alone(base: RunSpec) -> None:
    made = experiment(base, vary("clip", [0.5]), seeds=(3, 5))
    assert made.seed_list == (3, 5)
    assert made.arms[1].seeded(5) == base.patched({"clip": 0.5, "seed": 5})
    assert made.arms[1].fingerprint == base.patched({"clip": 0.5}).fingerprint


@pytest.mark.parametrize(("seeds", "count", "first"), [(3, 2, (0, 1)), (2, 4, (0, 1, 2, 3)), ((7, 5), 3, (7, 5, 8))])
def test_the_first_seeds_go_on_upwards(base: RunSpec, seeds: Any, count: int, first: tuple[int, ...]) -> None:
    assert experiment(base, {}, seeds=seeds).first_seeds(count).seed_list == first


@pytest.mark.parametrize(
    ("variants", "fields", "told"),
    [
        (vary("model.position.thta", [1.0]), {}, ["model.position.thta", "Did you mean 'theta'"]),
        (vary("model.norm", ["rmss"]), {}, ["model.norm", "rmss", "Did you mean 'rms'"]),
        (vary("model.position.theta", ["x"]), {}, ["variant", "theta", "'x'"]),
        ({"three": {"model.attention.n_heads": 3}}, {}, ["variant 'three'", "3", "16"]),
        ({"a/b": {"clip": 0.5}}, {}, ["'a/b'", "not safe", "write something like 'a-b'"]),
        ({"baseline": {"clip": 0.5}}, {}, ["'baseline'", "the baseline's own", "write something like 'my-baseline'"]),
        ({"a": {"clip": 0.5}, "b": {"clip": 0.5}}, {}, ["variant 'b'", "same as 'a'"]),
        ({"a": 5}, {}, ["variant 'a'", "5", "changes {path: value}"]),
        ({"a": {"seed": 3}}, {}, ["variant 'a'", "seed", "seeds="]),
        ({"bpe": {"tokenizer": {"kind": "bpe", "vocab_size": 300}}}, {}, ["'bpe'", "tokenizer", 'metric="val/bpb"']),
        ([1], {}, ["variants", "[1]", "vary(...)"]),
        ({}, {"seeds": 0}, ["seeds", "0"]),
        ({}, {"seeds": (1, 1)}, ["seeds", "(1, 1)"]),
        ({}, {"seeds": 10**9}, ["seeds", "1000000000", "from 1 to 1000", "seeds=3"]),
        ({}, {"seeds": True}, ["seeds", "got True", "seeds=3"]),
        ({}, {"seeds": 1.5}, ["seeds", "1.5", "seeds=3"]),
        ({}, {"seeds": "3"}, ["seeds", "'3'", "seeds=3"]),
        ({}, {"seeds": None}, ["seeds", "None", "seeds=3"]),
        ({}, {"seeds": [2**63]}, ["seeds", "9223372036854775808", "2**63 - 1"]),
        ({}, {"seeds": [True]}, ["seeds", "[True]"]),
        ({}, {"seeds": [1.5]}, ["seeds", "[1.5]"]),
        ({}, {"seeds": [-1]}, ["seeds", "[-1]"]),
        ({}, {"metric": 5}, ["metric", "5", "val/loss"]),
        ({}, {"metric": None}, ["metric", "None", "val/loss"]),
        ({}, {"metric": ["val/loss"]}, ["metric", "['val/loss']"]),
        ({}, {"match": None}, ["match: None", "'none'"]),
        ({}, {"match": 5}, ["match", "5", "params"]),
        ({"a": {5: 1}}, {}, ["variant 'a'", "5 is no path", "'model.norm'"]),
        ({"a": {"": 1}}, {}, ["variant 'a': '' is no path", "'model.norm'"]),
        ({"a": {None: 1}}, {}, ["variant 'a': None is no path"]),
        ({"a": {"clip": 0.5}, "A": {"clip": 0.6}}, {}, ["variant 'A'", "case", "'a'"]),
        ({"Report.html": {"clip": 0.5}}, {}, ["'Report.html'", "labkit's own", "'my-Report.html'"]),
        ({"superseded": {"clip": 0.5}}, {}, ["'superseded'", "labkit's own"]),
        ({"x" * 500: {"clip": 0.5}}, {}, ["xx … xx", "not safe"]),
        ({}, {"sseds": 3}, ["no argument 'sseds'", "Did you mean 'seeds'"]),
        ({}, {"metric": "val/los"}, ["metric", "val/los", "Did you mean 'val/loss'"]),
        ({}, {"match": "parms"}, ["match", "parms", "Did you mean 'params'"]),
    ],
)
def test_a_mistake_names_the_place_and_the_remedy(
    base: RunSpec, variants: Any, fields: dict[str, Any], told: list[str]
) -> None:
    with pytest.raises(Mistake) as caught:
        experiment(base, variants, **fields)
    for part in told:
        assert part in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_size_that_is_left_open_is_labelled_by_what_it_comes_to(base: RunSpec) -> None:
    made = experiment(base, {"a": {"model.feedforward.d_ff": 64, "clip": None}})
    width = base.model.feedforward.hidden(base.model.d_model)
    assert made.label(made.arms[0]) == f"d_ff={width},clip=1"


def test_a_placebo_is_the_baseline_under_other_initial_values(base: RunSpec) -> None:
    made = experiment(base, {"a": {"clip": 0.5}}, placebo=2)
    assert names(made) == ["baseline", "a", "placebo", "placebo-2"]
    first, second = (arm.seeded(1) for arm in made.arms[2:])
    assert {path.rpartition(".")[2] for path in made.arms[0].seeded(1).differences(first)} == {"init"}
    assert (first.seed.data, first.seed.dropout) == (1, 1)
    inits = {arm.seeded(seed).seed.init for arm in made.arms[1:] for seed in range(50)}
    assert len(inits) == 3 * 50
    assert made.label(made.arms[0]) == "clip=1"
    assert names(experiment(base, {}, placebo=True)) == ["baseline", "placebo"]
    assert experiment(base, {}, placebo=1, seeds=[2**63 - 1]).arms[1].seeded(2**63 - 1).seed.init == SHIFT - 1
    assert second.seed.init == 1 + 2 * SHIFT


def test_looks_margin_and_placebos_go_with_the_experiment_to_another_baseline(base: RunSpec) -> None:
    made = experiment(base, vary("clip", [0.5]), looks=(2, 4), margin=0.01, placebo=True)
    other = made.on(base.patched({"batch_size": 8})).first_seeds(4)
    assert (other.looks, other.margin, names(other)) == ((2, 4), 0.01, ["baseline", "clip=0.5", "placebo"])


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ({"looks": 3}, "write looks=(4, 6, 10)"),
        ({"looks": (4, 4)}, "looks: expected ascending numbers of seeds"),
        ({"looks": (6, 4)}, "ascending"),
        ({"looks": (1, 4)}, "2 to 1000"),
        ({"looks": ("4",)}, "ascending"),
        ({"margin": -0.1}, "write margin=0.005"),
        ({"margin": float("nan")}, "margin: expected nats"),
        ({"margin": True}, "margin: expected nats"),
        ({"margin": "0.1"}, "margin: expected nats"),
        ({"placebo": -1}, "write placebo=True"),
        ({"placebo": "yes"}, "placebo: expected True, False or how many"),
        ({"look": (4, 6)}, "Did you mean 'looks'"),
    ],
)
def test_looks_margins_and_placebos_that_are_none_are_refused(base: RunSpec, words: Any, part: str) -> None:
    with pytest.raises(Mistake) as caught:
        experiment(base, {}, **words)
    assert part in str(caught.value)


def test_a_variant_and_a_placebo_do_not_share_a_name(base: RunSpec) -> None:
    with pytest.raises(Mistake, match="there are two of this name"):
        experiment(base, {"placebo": {"clip": 0.5}}, placebo=True)


def test_what_is_left_out_is_asked_for(base: RunSpec) -> None:
    with pytest.raises(Mistake, match="variants: this argument is required; write variants=vary"):
        Experiment(baseline=base, seeds=1, metric="val/loss", match="none")  # type: ignore[call-arg]
    with pytest.raises(Mistake, match=r"match: this argument is required; write match='params'$"):
        Experiment(baseline=base, variants={}, seeds=1, metric="val/loss")  # type: ignore[call-arg]
    with pytest.raises(Mistake, match="name every argument: baseline=nano"):
        Experiment(base)  # type: ignore[call-arg]


def test_what_is_varied_has_one_path_and_one_list() -> None:
    with pytest.raises(Mistake, match=r"vary\(5, ...\): 5 is no path"):
        vary(5, [1])  # type: ignore[arg-type]
    for values in (5, None, {1, 2}):
        with pytest.raises(Mistake, match="write a list"):
            vary("clip", values)  # type: ignore[arg-type]
    with pytest.raises(Mistake, match="clip is varied twice"):
        cross(vary("clip", [0.5]), vary("clip", [0.6]))
    with pytest.raises(Mistake, match="clip is varied twice"):
        cross(cross(vary("clip", [0.5]), vary("model.norm", ["rms"])), vary("clip", [0.6]))


def test_values_to_vary_are_a_list() -> None:
    with pytest.raises(Mistake, match="write a list"):
        vary("model.norm", "rms")
    with pytest.raises(Mistake, match="write a list"):
        vary("model.norm", [])
    with pytest.raises(Mistake, match="two or more"):
        cross(vary("model.norm", ["rms"]))


def test_a_baseline_is_a_run_spec() -> None:
    with pytest.raises(Mistake, match="baseline: expected a RunSpec"):
        experiment("nano", {})
