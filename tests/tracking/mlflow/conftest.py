"""Run folders as a driver and its workers leave them, and one MLflow store for all tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labkit.tracking.mlflow.store import default_uri
from labkit.tracking.record import Edition

THETAS = {"baseline": 1e4, "theta=1000": 1e3}


def spec(theta: float, seed: int) -> dict[str, Any]:
    position = {"kind": "rope", "theta": theta, "fraction": 1.0}
    return {"model": {"d_model": 64, "position": position}, "seed": {"data": seed, "init": seed, "dropout": seed}}


def arm(name: str, theta: float) -> dict[str, Any]:
    label, sizes = f"theta={theta:.0f}", dict.fromkeys(("params", "non_embedding", "tokens", "steps"), 1)
    own = {"name": name, "label": label, "fingerprint": f"{theta:016.0f}", "varied": {"model.position.theta": theta}}
    return {**own, **sizes, "flops_per_token": 1.0, "changes": {}, "baseline": name == "baseline"}


def facts(name: str, theta: float, seed: int) -> dict[str, Any]:
    data = {"store": "/cache/0123", "hash": "0123456789abcdef" * 4, "corpus": "stdlib", "tokenizer": "byte"}
    planned = arm(name, theta)
    own = {"variant": name, "seed_index": seed, "fingerprint": f"{seed:016x}", "arm": planned["fingerprint"]}
    return {**own, "label": planned["label"], "varied": planned["varied"], "data": {**data, "train_tokens": 9}}


@pytest.fixture
def make(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Edition]:
    """An edition, named after the test, with its runs planned."""

    def made(thetas: dict[str, float] = THETAS, seeds: int = 1) -> Edition:
        edition = Edition(tmp_path / request.node.name.replace("[", ".").replace("]", "") / "main")
        arms = [arm(name, theta) for name, theta in thetas.items()]
        about = {"question": "Does theta matter?", "hypothesis": "", "metric": "val/loss", "match": "none"}
        where = {"file": "experiments/rope.py", "command": "labkit run experiments/rope.py", "seeds": [*range(seeds)]}
        edition.describe({**about, **where, "arms": arms})
        for name, theta in thetas.items():
            for seed in range(seeds):
                run = edition.run(name, seed, f"{seed:016x}")
                run.create(spec(theta, seed), facts(name, theta, seed))
        return edition

    return made


@pytest.fixture
def edition(make: Callable[..., Edition]) -> Edition:
    """One arm, one seed, half trained: steps 1 to 4."""
    edition = make({"baseline": 1e4})
    (run,) = edition.runs()
    run.update(status="running", started=1000.0)
    for step in range(1, 5):
        run.append(step, {"train/loss": 4 / step, "perf/tokens_per_s": 1000.0 + step})
    return edition


@pytest.fixture(scope="session")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return default_uri(tmp_path_factory.mktemp("runs"))
