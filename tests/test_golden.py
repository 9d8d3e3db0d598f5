"""Golden effective specs, a `path: value` a line, and what every baseline initialises how, a parameter a line.

A default that changes would change what old records mean, and shows here. After a change that is meant, run
`LABKIT_GOLDEN=write pytest tests/test_golden.py` and read the diff.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from experiments import baselines
from labkit.components.parameters import logical, logical_parts
from labkit.model import Transformer
from labkit.study.loading import load
from labkit.study.matching import matched
from labkit.train.run import RunSpec

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
BASELINES = [key for key, value in vars(baselines).items() if isinstance(value, RunSpec)]
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


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_computes_what_it_always_did(name: str) -> None:
    holds(name, list(effective(vars(baselines)[name])))


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: file.stem)
def test_an_experiment_compares_what_it_always_did(file: Path) -> None:
    loaded = load(file)
    arms = [counted.arm for counted in matched(loaded.experiment, loaded.base)]
    lines = [f"[{arm.name}]" + "".join(f"\n{line}" for line in effective(arm.spec)) for arm in arms]
    holds(file.stem, lines)


def initial(model: Transformer) -> Iterator[str]:
    """Name, shape, role and distribution; layers that start alike share a line."""
    spreads, views = model.spreads(), logical(model)
    alike: dict[tuple[str, str], list[str]] = {}
    for name, part in logical_parts(model).items():
        _, layer, rest = name.split(".", 2) if name.startswith("layers.") else ("", "", name)
        shape = " × ".join(map(str, views[name].shape))
        start = f"N(0, {spreads[name]:.6g}²)" if name in spreads else constant(views[name])
        alike.setdefault((f"layers.*.{rest}" if layer else rest, f"{shape}  {part.role}  {start}"), []).append(layer)
    for (name, told), layers in alike.items():
        few = f" [{', '.join(layers)}]" if 0 < len(list(filter(None, layers))) < model.spec.n_layers else ""
        yield f"{name}{few}  {told}"


def constant(vector: torch.Tensor) -> str:
    [value] = set(vector.tolist())
    return f"{value:g}"


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_starts_as_it_always_did(name: str) -> None:
    spec = vars(baselines)[name]
    model = Transformer(
        spec.model, spec.tokenizer.size(ROOT / "experiments")
    )  # memory that nobody writes costs nothing
    holds(f"initial/{name}", list(initial(model)))
