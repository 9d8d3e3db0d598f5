"""Variants with another tokenizer."""

from pathlib import Path

import pytest

from labkit.spec import Mistake
from labkit.study.counting import Counted, counted
from labkit.study.experiment import Experiment
from labkit.study.tokenizers import Density, check_tokenizers
from labkit.train.run import RunSpec
from tests.specs import TINY

BPE = {"kind": "bpe", "vocab_size": 300}
TEXTS = {"baseline": Density(1000, 1000), "bpe": Density(500, 1000)}


def arms(**changes: object) -> list[Counted]:
    """A baseline of 100 steps of bytes, and a variant whose tokens hold two bytes each."""
    base = RunSpec.from_json(TINY).patched({"budget": {"kind": "steps", "steps": 100}})
    made = Experiment(
        baseline=base,
        variants={"bpe": {"tokenizer": BPE, **changes}},
        seeds=2,
        metric="val/bpb",
        match="none",
    )
    return [counted(arm, Path()) for arm in made.arms]


def test_as_many_bytes_are_compared() -> None:
    check_tokenizers(arms(**{"budget.steps": 50}), TEXTS, 0.01)


def test_as_many_flops_are_compared() -> None:
    baseline, variant = arms()
    assert variant.flops / baseline.flops > 1.01
    steps = round(100 * baseline.flops / variant.flops)
    check_tokenizers(arms(**{"budget.steps": steps}), TEXTS, 0.02)


def test_neither_is_refused_with_the_budget_to_write() -> None:
    with pytest.raises(Mistake) as refused:
        check_tokenizers(arms(), TEXTS, 0.01)
    words = str(refused.value)
    assert words.startswith("variant 'bpe': tokenizer: it is trained on 0.01M bytes")
    assert "'budget': {'kind': 'tokens', 'tokens': 3200}" in words
    check_tokenizers(arms(budget={"kind": "tokens", "tokens": 3200}), TEXTS, 0.01)


def test_arms_that_are_not_run_and_arms_of_one_tokenizer_are_not_looked_at() -> None:
    check_tokenizers(arms(), {"bpe": TEXTS["bpe"]}, 0.01)
    check_tokenizers(arms(), {"baseline": TEXTS["baseline"]}, 0.01)
    baseline, _ = arms()
    check_tokenizers([baseline, baseline], TEXTS, 0.01)
