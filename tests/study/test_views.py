"""What a dry run and `labkit show` say of matching."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from labkit.cli import app

Write = Callable[..., Path]
VARIANTS = "{'gelu': {'model.feedforward': 'gelu'}, 'layer': {'model.norm': 'layer'}}"


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, project: Path) -> Callable[..., Result]:
    monkeypatch.chdir(project)
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def experiment(match: str, variants: str = VARIANTS, more: str = "") -> str:
    call = f"baseline=pico, variants={variants}, seeds=1, metric='val/loss', match={match!r}{more}"
    return f"from experiments.baselines import pico\nfrom labkit import *\n\nexperiment = Experiment({call})\n"


@pytest.mark.parametrize("words", [("run", "--dry-run"), ("show",)], ids=["run", "show"])
def test_what_was_moved_is_shown_beside_what_was_written(
    ask: Callable[..., Result], write: Write, words: tuple[str, ...]
) -> None:
    told = ask(words[0], write(experiment("params")), *words[1:])
    assert told.exit_code == 0, told.output
    [gelu] = [line.split() for line in told.stdout.splitlines() if "64 → 72" in line]
    path = "model.feedforward.d_ff"
    assert gelu == f"gelu, d_ff 72 {path} 64 → 72 7,488 +0.00 % 0.0000 nats 7,232 -3.42 %".split()
    [layer] = [line.split() for line in told.stdout.splitlines() if line.split()[:2] == ["layer", "-"]]
    assert layer == ["layer", "-", "7,536", "+0.64", "%", "0.0425", "nats", "7,536", "+0.64", "%"]
    text = " ".join(told.stdout.split())
    law = "L(N) = 1.69 + 406.4 / N^0.34 (Chinchilla, arXiv:2203.15556)"
    assert f"matched params within 0.65 %, worth < .05 nats by {law}" in text


def test_equal_variants_need_no_table(ask: Callable[..., Result], write: Write) -> None:
    told = ask("run", write(experiment("flops", "vary('model.position.theta', [5.0])")), "--dry-run").stdout
    assert "matched   flops equal\n" in told
    assert "moved" not in told


def test_nothing_matched_is_nothing_said(ask: Callable[..., Result], write: Write) -> None:
    assert "matched" not in ask("show", write(experiment("none"))).stdout


def test_programs_are_told_the_same(ask: Callable[..., Result], write: Write) -> None:
    file = write(experiment("params"))
    [_, shown, _] = json.loads(ask("show", file, "--json").stdout)["arms"]
    [_, planned, _] = json.loads(ask("run", file, "--dry-run", "--json").stdout)["runs"]
    assert planned["label"] == "gelu, d_ff 72"
    assert planned["variant"] == shown["name"] == "gelu"
    assert planned["changes"] == {"model.feedforward": ["swiglu(d_ff=None)", "gelu(d_ff=72)"]}
    assert planned["matched"] == shown["matched"]
    assert {key: planned["matched"][key] for key in ("on", "before", "after", "residual_nats")} == {
        "on": "params",
        "before": 64,
        "after": 72,
        "residual_nats": 0,
    }
    assert planned["matched"]["written"]["params"] == 7232


def test_what_cannot_be_matched_is_one_message(ask: Callable[..., Result], write: Write) -> None:
    told = ask("run", write(experiment("params", "{'far': {'model.d_model': 32}}")), "--dry-run")
    assert told.exit_code == 2
    assert "variant 'far': match='params' does not hold" in " ".join(told.output.split())
