"""Golden effective specs: what every shipped baseline and experiment computes, a `path: value` a line.

A default that changes would change what old records mean, and shows here. After a change that is meant, run
`LABKIT_GOLDEN=write pytest tests/test_golden.py` and read the diff.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments import baselines
from labkit.study.loading import load
from labkit.train.run import RunSpec

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
EXPERIMENTS = [path for path in sorted((ROOT / "experiments").glob("*.py")) if path.stem != "baselines"]


def effective(spec: RunSpec) -> Iterator[str]:
    yield f"fingerprint: {spec.fingerprint}"
    for path, value in spec.flat().items():
        yield f"{path}: {value}"


def holds(name: str, lines: list[str]) -> None:
    file, text = GOLDEN / f"{name}.txt", "\n".join(lines) + "\n"
    if os.environ.get("LABKIT_GOLDEN") == "write":
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("name", [key for key, value in vars(baselines).items() if isinstance(value, RunSpec)])
def test_a_baseline_computes_what_it_always_did(name: str) -> None:
    holds(name, list(effective(vars(baselines)[name])))


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: file.stem)
def test_an_experiment_compares_what_it_always_did(file: Path) -> None:
    arms = load(file).experiment.arms
    lines = [f"[{arm.name}]" + "".join(f"\n{line}" for line in effective(arm.spec)) for arm in arms]
    holds(file.stem, lines)
