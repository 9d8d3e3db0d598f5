"""Every test has a cache of its own."""

import random
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LABKIT_CACHE", str(folder))
    return folder


@pytest.fixture
def poem() -> str:
    """300 different lines, some beyond ASCII."""
    draw = random.Random(0)
    words = "the rope turned äöü — θ slowly 日本 under a lamp of frost and 🎈 salt".split()  # noqa: SIM905
    return "".join(f"{n}: {' '.join(draw.choices(words, k=9))}\n" for n in range(300))
