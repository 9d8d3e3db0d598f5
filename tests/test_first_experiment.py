"""README's first experiment learns more of the text than the frequencies of its bytes."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.baselines import nano
from labkit.data import prepare
from labkit.tracking.record import Run
from labkit.train.loop import train
from labkit.train.run import Runtime


def bigram_entropy(tokens: np.ndarray, size: int) -> float:
    """H(next | this) = Σ p(a, b) ln p(a) / p(a, b), in nats."""
    pairs = np.bincount(tokens[:-1] * size + tokens[1:], minlength=size * size).reshape(size, size) / (len(tokens) - 1)
    firsts = pairs.sum(axis=1, keepdims=True)
    conditional = np.divide(pairs, firsts, out=np.ones_like(pairs), where=pairs > 0)
    return float(-(pairs * np.log(conditional)).sum())


def test_the_entropy_of_a_known_source() -> None:
    assert bigram_entropy(np.array([0, 1] * 100), 2) == pytest.approx(0.0)
    assert bigram_entropy(np.random.default_rng(0).integers(4, size=100_000), 4) == pytest.approx(np.log(4), abs=1e-3)


FEW = {"budget": {"kind": "steps", "steps": 450}, "evaluation.points": 1, "evaluation.beyond": ()}
"""Of 1200 steps, and scored at the end alone."""


def test_under_half_a_run_of_the_first_experiment_ends_below_the_bigram_entropy_of_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    store = prepare(nano.data, nano.tokenizer, tmp_path)
    limit = bigram_entropy(store.train.read(0, store.train.n_tokens), store.size)
    assert 2.2 < limit < 2.6
    run, spec = Run(tmp_path / "run"), nano.patched(FEW)
    run.create(spec.as_json(), {})
    assert train(run, spec, Runtime(device="cpu"), store, lambda: False) == "done"
    final = json.loads((run.path / "record.json").read_text())["final"]
    assert final["val/loss"] < limit - 0.4
    assert final["val/bpb"] == pytest.approx(final["val/loss"] / np.log(2), rel=0.01)
