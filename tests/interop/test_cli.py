"""labkit import and labkit export, from a run to transformers and back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from labkit.cli import app
from labkit.interop import load
from labkit.model import ModelSpec

EXPERIMENT = """
from labkit import Experiment, vary
from experiments.baselines import pico
experiment = Experiment(
    baseline=pico, variants=vary("model.attention.sinks", [True]), seeds=1, metric="val/loss", match="none"
)
"""


def test_a_run_goes_out_to_transformers_and_comes_in_again(
    transformers: Any, project: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("LABKIT_CACHE", str(project / "cache"))
    ask = CliRunner().invoke
    file = write(EXPERIMENT)
    assert ask(app, ["run", str(file), "--device", "cpu", "--steps", "4"]).exit_code == 0
    runs = {path.parts[-3]: path.parent for path in project.glob("runs/*/*/*/seed*/record.json")}
    refused = ask(app, ["export", str(next(path for name, path in runs.items() if name != "baseline")), "refused"])
    assert refused.exit_code == 2
    assert "model.attention.sinks: True here, False there" in " ".join(refused.output.split())
    assert not (project / "refused").exists()
    out = ask(app, ["export", str(runs["baseline"]), "out"])
    assert out.exit_code == 0, out.output
    said = ask(app, ["import", "out", "--to", "back", "--json"])
    assert said.exit_code == 0, said.output
    spec, model = load(project / "back")
    assert ModelSpec.from_json(json.loads(said.stdout)["model"]) == spec
    text = "a little text"
    tokenizer = transformers.AutoTokenizer.from_pretrained(project / "out")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(project / "out", attn_implementation="eager").eval()
    tokens_BT = tokenizer(text, return_tensors="pt")["input_ids"]
    assert theirs.generation_config.eos_token_id == 256
    with torch.no_grad():
        ours, wanted = model.eval()(tokens_BT), theirs(tokens_BT).logits
    assert (ours - wanted).abs().max() < 1e-5 * wanted.abs().max()
