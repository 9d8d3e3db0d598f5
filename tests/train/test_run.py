"""Run specs, budgets and runtimes."""

import re
from collections.abc import Iterable
from typing import Literal

import pytest

from labkit.faults import explain
from labkit.model import costs
from labkit.optim.optimizer import Adamw, Optimizer
from labkit.optim.stepper import Stepper
from labkit.optim.weights import Weight
from labkit.spec import Mistake, ValidationError
from labkit.train.run import Budget, Evaluation, Flops, RunSpec, Runtime, Seed, Steps, Tokens


def test_a_number_seeds_everything(lab) -> None:
    seeded = lab.spec.patched({"seed": 3})
    assert seeded.seed == Seed(data=3, init=3, dropout=3)
    assert seeded.patched({"seed.init": 4}).seed == Seed(data=3, init=4, dropout=3)


def test_a_run_spec_survives_json_with_its_fingerprint(lab) -> None:
    again = RunSpec.from_json(lab.spec.as_json())
    assert (again, again.fingerprint) == (lab.spec, lab.spec.fingerprint)


@pytest.mark.parametrize(
    ("budget", "steps"),
    [
        (Tokens(tokens=1000), 10),
        (Tokens(tokens=1099), 10),
        (Tokens(tokens=3), 1),
        (Steps(steps=7), 7),
        (Flops(flops=1e6), 5),
        (Flops(flops=1.1999e6), 5),
        (Flops(flops=1.0), 1),
    ],
)
def test_a_budget_is_whole_steps_and_never_overspent_beyond_the_first(budget: Budget, steps: int) -> None:
    assert budget.whole_steps(tokens_per_step=100, flops_per_token=2000.0) == steps


def test_a_budget_of_flops_counts_the_models_own(lab) -> None:
    per_step = costs(lab.spec.model, 257).flops_per_token * 4 * 16
    spec = lab.spec.patched({"budget": {"kind": "flops", "flops": 30.5 * per_step}})
    assert spec.steps(257) == 30
    assert spec.tokens(257) == 30 * 4 * 16


def test_a_budget_is_changed_by_its_path(lab) -> None:
    assert lab.spec.patched({"budget.steps": 99}).steps(257) == 99


def test_evaluations_are_evenly_spaced_and_the_last_is_at_the_last_step() -> None:
    assert Evaluation(points=4).steps(100) == (25, 50, 75, 100)
    assert Evaluation(points=4).steps(3) == (1, 2, 3)
    assert Evaluation(points=3).steps(10) == (3, 6, 10)


@pytest.mark.parametrize(("beyond", "told"), [([2, 2], "2 stands twice; write each once: [2]"), ([4, 2, 4], "[4, 2]")])
def test_a_length_that_is_said_twice_is_refused(beyond: list[int], told: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(told)):
        Evaluation().patched({"beyond": beyond})


def test_mup_refuses_an_optimizer_that_does_not_say_how_its_rate_follows_the_width(lab, own_imports: None) -> None:
    class Sign(Optimizer):
        """w ← w - lr sign(g)."""

        kind: Literal["sign"] = "sign"

        def build(self, weights: Iterable[Weight]) -> Stepper:
            return Adamw().build(weights)

    assert lab.spec.patched({"optimizer": "sign"}).optimizer == Sign()
    with pytest.raises(ValidationError) as refused:
        lab.spec.patched({"optimizer": "sign", "model.parametrization": "mup"})
    told = explain(refused.value, RunSpec)
    assert told.startswith("optimizer: sign does not say how its learning rate follows the width, which mup needs.")
    assert "def rate(self, part: Part) -> float" in told


def test_a_micro_batch_that_does_not_divide_the_batch_is_refused_with_both_numbers() -> None:
    assert Runtime().rows(12) == 12
    assert Runtime(micro_batch=4).rows(12) == 4
    with pytest.raises(Mistake, match="--micro-batch: 5 does not divide batch_size 12; write 4"):
        Runtime(micro_batch=5).rows(12)


def test_processes_share_a_batch_evenly_and_its_micro_batches_divide_a_share() -> None:
    assert Runtime(data_parallel=3).rows(12) == 4
    assert Runtime(data_parallel=3, micro_batch=2).rows(12) == 2
    with pytest.raises(Mistake, match="--data-parallel: 8 does not divide batch_size 12; write 6"):
        Runtime(data_parallel=8).rows(12)
    with pytest.raises(
        Mistake, match="--micro-batch: 3 does not divide 4, each process's share of batch_size 12; write 2"
    ):
        Runtime(data_parallel=3, micro_batch=3).rows(12)


def test_a_group_trains_one_run_at_a_time() -> None:
    assert Runtime(data_parallel=2, side_by_side=1).data_parallel == 2
    with pytest.raises(ValidationError, match=r"data_parallel: 2 processes .* side_by_side is 3; write 1 or auto"):
        Runtime(data_parallel=2, side_by_side=3)


def test_a_warmup_longer_than_the_run_is_refused(lab) -> None:
    with pytest.raises(Mistake, match="30 steps of warm-up do not fit into 12 steps"):
        lab.spec.patched({"schedule.warmup": 30}).steps(257)


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "CPU"])
def test_a_device_that_can_be_none_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Runtime(device=name)
    assert f"device: unknown device '{name}'; write auto, cpu" in explain(caught.value, Runtime)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("batch_size", 2**20 + 1),
        ("model.context", 2**24 + 1),
        ("model.context", 1),
        ("model.n_layers", 4097),
        ("model.d_model", 2**20 + 1),
        ("model.attention.n_heads", 2**20 + 1),
        ("model.attention.head_dim", 2**20 + 1),
        ("model.feedforward.d_ff", 2**20 + 1),
        ("model.feedforward.multiple_of", 2**20 + 1),
        ("model.feedforward.multiplier", 1 / 65),
        ("model.feedforward.multiplier", 1025.0),
        ("model.norm.eps", 0.0),
        ("model.norm.eps", -1e-6),
        ("model.init.std", 11.0),
        ("model.position.theta", 0.5),
        ("data.validation", 0.51),
        ("data.validation", 9e-5),
        ("data.corpus.path", ""),
        ("evaluation.windows", 2**31 + 1),
        ("evaluation.points", 2**20 + 1),
        ("evaluation.beyond", [4097]),
        ("budget.steps", 10**8 + 1),
        ("schedule.warmup", 1e30),
    ],
)
def test_a_value_that_would_hang_or_crash_is_refused_at_its_path(lab, path: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        lab.spec.patched({path: value})
    assert re.match(rf"{path}(\.0)?: .+ \(got ", explain(caught.value, RunSpec))


@pytest.mark.parametrize(
    ("family", "value", "path"),
    [
        ("tokenizer", {"kind": "bpe", "vocab_size": 2**24 + 1}, "tokenizer.vocab_size"),
        ("tokenizer", {"kind": "pretrained", "path": ""}, "tokenizer.path"),
        ("data.corpus", {"kind": "hf", "path": ""}, "data.corpus.path"),
        ("data.corpus", {"kind": "hf", "path": "x", "limit": 2**63}, "data.corpus.limit"),
        ("budget", {"kind": "flops", "flops": 1e31}, "budget.flops"),
        ("budget", {"kind": "tokens", "tokens": 10**18 + 1}, "budget.tokens"),
        ("model.attention", {"kind": "gqa", "n_heads": 2, "n_kv_heads": 2**20 + 1}, "model.attention.n_kv_heads"),
        ("model.norm", {"kind": "layer", "eps": 0}, "model.norm.eps"),
        ("model.init", {"kind": "scaled_residual", "std": 11}, "model.init.std"),
    ],
)
def test_so_it_is_in_every_variant(lab, family: str, value: object, path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        lab.spec.patched({family: value})
    assert explain(caught.value, RunSpec).startswith(f"{path}: ")


@pytest.mark.parametrize("budget", [{"kind": "flops", "flops": 1e30}, {"kind": "tokens", "tokens": 10**18}])
def test_a_budget_of_more_steps_than_can_be_held_is_refused_with_their_number(lab, budget: dict[str, object]) -> None:
    with pytest.raises(Mistake, match=r"^budget: it makes [\d.]+e\+\d\d steps of 64 tokens, .* at most 100,000,000\."):
        lab.spec.patched({"budget": budget}).steps(257)


@pytest.mark.parametrize("field", ["micro_batch", "threads"])
def test_a_runtime_beyond_any_machine_is_refused(field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        Runtime(**{field: 2**40})


@pytest.mark.parametrize("changes", [{"clip": 0.0}, {"batch_size": 0}, {"precision": "fp16"}, {"seed": -1}])
def test_values_that_cannot_work_are_refused(lab, changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        lab.spec.patched(changes)


@pytest.mark.parametrize(("asked", "taken"), [("auto", "auto"), (3, 3), ("3", 3)])
def test_how_many_go_side_by_side_may_be_typed(asked: object, taken: object) -> None:
    assert Runtime.from_json({"side_by_side": asked}).side_by_side == taken


@pytest.mark.parametrize("asked", [0, 9, "many", True, 1.5])
def test_what_is_no_number_of_runs_is_refused_with_those_that_are(asked: object) -> None:
    with pytest.raises(ValidationError, match="write auto, or 1 to 8"):
        Runtime.from_json({"side_by_side": asked})
