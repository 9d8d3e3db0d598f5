"""Synthetic experiments: run folders as training leaves them, with losses that the tests choose."""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from labkit.tracking.record import Edition, Run

STEPS = 100
TOKENS_PER_STEP = 1000


DESCRIPTION: dict[str, Any] = {
    "name": "theta",
    "edition": "main",
    "title": "theta",
    "file": "experiments/theta.py",
    "command": "labkit run experiments/theta.py",
    "question": "Does theta matter?",
    "hypothesis": "No.",
    "metric": "val/loss",
    "match": "none",
    "seeds": [0, 1, 2],
}
"""Of an experiment that nobody ran."""


@dataclass
class Synthetic:
    """An edition on disk that grows arm by arm and run by run."""

    edition: Edition
    description: dict[str, Any]
    arms: dict[str, dict[str, Any]] = field(default_factory=dict)

    def arm(self, name: str, **fields: Any) -> None:
        """Declare an arm, the first one being the baseline; or declare it anew."""
        index = len(self.arms)
        new = {
            "name": name,
            "label": name,
            "baseline": index == 0,
            "fingerprint": f"{index:016x}",
            "changes": {"model.position.theta": ["10000", name]} if index else {},
            "params": 170_000,
            "non_embedding": 150_000,
            "flops_per_token": 1e6,
            "tokens": STEPS * TOKENS_PER_STEP,
            "steps": STEPS,
            "varied": {"model.position.theta": index},
        }
        self.arms[name] = self.arms.get(name, new) | fields
        self.edition.describe({**self.description, "arms": list(self.arms.values())})

    def at(self, name: str, seed: int) -> Run:
        """The run's folder."""
        return self.edition.run(name, seed, hashlib.sha256(f"{name} {seed}".encode()).hexdigest()[:16])

    def run(
        self, name: str, seed: int, loss: float = 2.0, status: str = "done", points: int = 10, **fields: Any
    ) -> Run:
        """Record a run whose validation loss falls to `loss`."""
        arm = self.arms[name]
        run = self.at(name, seed)
        run.create(fields.pop("spec", {"kind": "spec"}), _facts(arm, name, seed, run))
        for point in range(1, points + 1):
            step = point * STEPS // points
            height = loss + 3 * (1 - point / points) ** 2
            run.append(step, {"train/loss": height + 0.05, "val/loss": height, "val/bpb": height / 1.5})
        run.update(**{"status": status, "step": STEPS, "final": _final(loss)} | fields)
        return run


def _facts(arm: Mapping[str, Any], name: str, seed: int, run: Run) -> dict[str, Any]:
    return {
        "variant": name,
        "arm": arm["fingerprint"],
        "fingerprint": run.path.name.partition("-")[2],
        "seed_index": seed,
        "steps": STEPS,
        "tokens_per_step": TOKENS_PER_STEP,
        "sources": {"experiments/theta.py": "aa"},
        "data": {
            "hash": "d0d0",
            "corpus": "stdlib",
            "tokenizer": "byte",
            "train_tokens": 5_000_000,
            "train_bytes": 5e6,
        },
        "device": "cpu",
        "mode": "exact",
        "precision": "fp32",
        "kernels": "torch",
        "versions": {"labkit": "0.1.0", "torch": "2.11.0"},
        "started": 1_700_000_000.0 + seed,
        "seconds": 17.25,
        "epochs": 0.4,
        "by_position": {"edges": [1, 2, 4, 8, 16], "loss": [4.0, 3.0, 2.5, 2.2]},
    }


def _final(loss: float) -> dict[str, float]:
    beyond = {"val/loss_x1": loss, "val/loss_x2": loss + 0.1, "val/loss_x4": loss + 0.4}
    return {"val/loss": loss, "val/bpb": loss / 1.5, "perf/tokens_per_s": 45_200.0, **beyond}


@pytest.fixture(autouse=True)
def without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of small files: none has to survive a power cut."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture
def synthetic(tmp_path: Path) -> Callable[..., Synthetic]:
    """An empty experiment; keywords replace fields of its description."""

    def make(**fields: Any) -> Synthetic:
        return Synthetic(Edition(tmp_path / "runs" / "theta" / "main"), DESCRIPTION | fields)

    return make


@pytest.fixture
def pair(synthetic: Callable[..., Synthetic]) -> Synthetic:
    """A baseline and two variants, three seeds each, all done: one variant clearly lower, one within the noise."""
    experiment = synthetic()
    for name in ("baseline", "1e5", "5e5"):
        experiment.arm(name)
    for seed, loss in enumerate((2.00, 2.02, 1.98)):
        experiment.run("baseline", seed, loss)
        experiment.run("1e5", seed, loss - 0.05 + 0.001 * seed)
        experiment.run("5e5", seed, loss + 0.01 * (seed - 1))
    return experiment


@pytest.fixture
def level(synthetic: Callable[..., Synthetic]) -> Callable[..., Synthetic]:
    """An experiment with looks, margins and so on, whose arms lie the given gaps from the baseline, all seeds done."""

    def make(seeds: int, gaps: Mapping[str, float], noise: float = 0.002, **fields: Any) -> Synthetic:
        experiment = synthetic(**{"seeds": list(range(seeds))} | fields)
        experiment.arm("baseline")
        for seed in range(seeds):
            experiment.run("baseline", seed, 2.0 + 0.1 * (seed % 3))
        for at, (name, gap) in enumerate(gaps.items(), 1):
            experiment.arm(name, placebo=name.startswith("placebo"))
            for seed in range(seeds):
                experiment.run(name, seed, 2.0 + 0.1 * (seed % 3) + gap + noise * math.sin(seed * at + at))
        return experiment

    return make
