"""labkit import and labkit export, from a run to transformers and back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from labkit.cli import app
from labkit.components.parameters import logical
from labkit.interop import as_python, export_model, import_folder, load
from labkit.model import ModelSpec, Transformer
from labkit.spec import Mistake

EXPERIMENT = """
from labkit import Experiment, vary
from experiments.baselines import pico
experiment = Experiment(
    baseline=pico, variants=vary("model.attention.sinks", [True]), seeds=1, metric="val/loss", match="none"
)
"""


PARTS: dict[str, Any] = {
    "norm": {"kind": "rms", "eps": 1e-5},
    "residual": "pre",
    "attention": {"kind": "gqa", "n_heads": 4, "n_kv_heads": 2},
    "feedforward": "swiglu",
    "position": {"kind": "rope", "scaling": {"kind": "linear", "factor": 2.0}},
    "head": "tied",
    "init": "normal",
}


def initialized(spec: ModelSpec) -> Transformer:
    model = Transformer(spec, 100)
    model.initialize(0)
    return model


@pytest.mark.usefixtures("no_drawings")
def test_a_run_goes_out_to_transformers_and_comes_in_again(
    transformers: Any, project: Path, write: Any, mlflow_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_store)
    monkeypatch.setenv("LABKIT_CACHE", str(project / "cache"))
    ask = CliRunner().invoke
    file = write(EXPERIMENT)
    assert ask(app, ["run", str(file), "--device", "cpu", "--workers", "1", "--steps", "4"]).exit_code == 0
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


def test_what_is_imported_is_printed_as_a_baseline_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = ModelSpec(d_model=32, n_layers=2, context=64, **PARTS)
    export_model(initialized(spec), tmp_path / "theirs")
    (tmp_path / "theirs" / "tokenizer.json").write_text("{}")
    said = CliRunner().invoke(app, ["import", "theirs"])
    assert said.exit_code == 0, said.output
    places: dict[str, Any] = {"ModelSpec": ModelSpec}
    exec(said.stdout, places)
    assert places["model"] == load("imported/theirs")[0]
    assert '    norm={"kind": "rms", "eps": 1e-05},\n    residual="pre",\n' in said.stdout
    assert f'{{"kind": "pretrained", "path": "{tmp_path}/theirs/tokenizer.json"}}' in said.stderr


def test_an_import_replaces_itself_but_no_other_model(tmp_path: Path) -> None:
    spec = ModelSpec(d_model=32, n_layers=1, context=64, **PARTS)
    trained = initialized(spec)
    logical(trained)["embedding.weight"][0] += 1
    wide = initialized(spec.patched({"d_model": 64}))
    for name, model in (("one", initialized(spec)), ("copy", initialized(spec)), ("trained", trained), ("wide", wide)):
        export_model(model, tmp_path / name)
    target = tmp_path / "in"
    for name in ("one", "one", "copy"):
        import_folder(tmp_path / name, target)
    before = (target / "weights.safetensors").read_bytes()
    for name in ("trained", "wide"):
        with pytest.raises(
            Mistake, match=r"in: holds model\.json already; write the name of a new folder, or remove t"
        ):
            import_folder(tmp_path / name, target)
    assert (target / "weights.safetensors").read_bytes() == before


def test_another_model_at_the_same_place_is_another_model(tmp_path: Path) -> None:
    spec = ModelSpec(d_model=32, n_layers=1, context=64, **PARTS)
    export_model(initialized(spec), tmp_path / "out")
    import_folder(tmp_path / "out", tmp_path / "in")
    (tmp_path / "out").rename(tmp_path / "before")
    export_model(initialized(spec.patched({"norm.eps": 1e-6})), tmp_path / "out")
    with pytest.raises(Mistake, match=r"in: holds model\.json already"):
        import_folder(tmp_path / "out", tmp_path / "in")
    (tmp_path / "in" / "model.json").write_text("{")
    with pytest.raises(Mistake, match=r"in: holds model\.json already"):
        import_folder(tmp_path / "before", tmp_path / "in")


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_weights_that_are_no_numbers_are_refused_by_name(tmp_path: Path, value: float) -> None:
    model = initialized(ModelSpec(d_model=32, n_layers=1, context=64, **PARTS))
    logical(model)["layers.0.feedforward.up.weight"][3, 4] = value
    export_model(model, tmp_path / "theirs")
    with pytest.raises(Mistake, match=r"model\.layers\.0\.mlp\.up_proj\.weight holds 1 values of [\d,]+ that are NaN"):
        import_folder(tmp_path / "theirs", tmp_path / "in")
    assert not (tmp_path / "in").exists()


def test_a_pattern_is_printed_so_too() -> None:
    pattern = ({"attention.window": 8}, {})
    spec = ModelSpec(d_model=32, n_layers=2, context=64, pattern=pattern, **PARTS)
    assert eval(as_python(spec), {"ModelSpec": ModelSpec}) == spec


def test_what_is_written_may_be_read_by_whom_the_folder_lets(tmp_path: Path) -> None:
    spec = ModelSpec(d_model=32, n_layers=1, context=64, **PARTS)
    export_model(Transformer(spec, 100), tmp_path / "out")
    weights, config = (tmp_path / "out" / name for name in ("model.safetensors", "config.json"))
    assert weights.stat().st_mode == config.stat().st_mode
