"""A project of a user's own: a little text, a baseline that trains in a blink, and room for experiment files."""

import gc
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined, so before anything of labkit is imported

from labkit.spec import Choice

gc.set_threshold(50_000)  # as in the command line: what all tests import is much to look through

BASELINES = """
from labkit import ModelSpec, RunSpec

pico = RunSpec(
    model=ModelSpec(
        d_model=16, n_layers=1, context=32, norm="rms", residual="pre", attention={"kind": "mha", "n_heads": 2},
        feedforward={"kind": "swiglu", "multiple_of": 8}, position={"kind": "rope", "theta": 10_000}, head="tied",
        init="normal",
    ),
    data={"corpus": {"kind": "text", "path": "../text"}, "validation": 0.1},
    tokenizer="byte",
    optimizer={"kind": "adamw", "lr": 5e-3, "betas": (0.9, 0.95), "weight_decay": 0.1},
    schedule={"kind": "cosine", "warmup": 0.1, "final": 0.1},
    budget={"kind": "steps", "steps": 20},
    batch_size=4,
    precision="fp32",
    evaluation={"points": 2, "windows": 4, "beyond": (2,)},
)
wide = pico.patched({"model.d_model": 32})
"""

EXPERIMENT = '''"""Theta in small.

Question    Does theta matter
            at 32 tokens?
Hypothesis  No.
"""

from experiments.baselines import pico
from labkit import Experiment, vary

experiment = Experiment(
    baseline=pico, variants=vary("model.position.theta", [1e3, 5e5]), seeds=2, metric="val/loss", match="params"
)
'''

Write = Callable[..., Path]

LONG = tuple(f"tests/test_{name}.py" for name in ("readme", "project", "cli", "first_experiment"))
"""Files with tests of ten seconds and more."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several workers none is left with a long test when the others are done: those come first."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """As in a worker: results of several threads differ in their last digits, and tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def is_users(name: str) -> bool:
    """Whether a module is of the packages that a project has."""
    return name.partition(".")[0] in ("experiments", "sweeps")


@pytest.fixture
def own_imports(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a user's files import and register stays in the test, and so does what was timed; data is prepared once."""
    registries = [(family, dict(family.variants)) for family in Choice.__subclasses__()]
    before = set(sys.modules)
    kept = {name: sys.modules.pop(name) for name in before if is_users(name)}
    monkeypatch.setattr(sys, "path", list(sys.path))
    cache = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("LABKIT_CACHE", str(cache))
    yield
    shutil.rmtree(cache / "paces", ignore_errors=True)
    for name in set(sys.modules) - before | kept.keys():
        if is_users(name):
            sys.modules.pop(name, None)
    sys.modules.update(kept)
    for family, variants in registries:
        family.variants = variants


@pytest.fixture(scope="session")
def mlflow_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An MLflow store for tests that are not about where it lies: making one takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


@cache
def texts() -> list[str]:
    """Of the files of every project."""
    words, draw = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"], random.Random(0)
    return [" ".join(draw.choice(words) for _ in range(300)) for _ in range(30)]


@pytest.fixture
def project(tmp_path: Path, own_imports: None) -> Path:
    """A project's folder."""
    (tmp_path / "text").mkdir()
    (tmp_path / "experiments").mkdir()
    for index, text in enumerate(texts()):
        (tmp_path / "text" / f"{index}.txt").write_text(text)
    (tmp_path / "experiments" / "baselines.py").write_text(BASELINES)
    (tmp_path / "experiments" / "theta.py").write_text(EXPERIMENT)
    return tmp_path


@pytest.fixture
def no_drawings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report's drawings, which take most of what it takes, are for the tests that look at them."""
    nothing = SimpleNamespace(differences=[], curves=[], costs=[], all=[])
    monkeypatch.setattr("labkit.report.page.Drawings.of", lambda _: nothing)


@pytest.fixture
def write(project: Path) -> Write:
    """Put a file into the project's experiments."""

    def written(text: str, name: str = "mine.py") -> Path:
        path = project / "experiments" / name
        path.write_text(text)
        return path

    return written
