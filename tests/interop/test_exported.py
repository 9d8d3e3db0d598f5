"""Exported models whose layouts differ from the architecture's, tokenizers, and the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from labkit.components.parameters import logical
from labkit.data import DataSpec, prepare
from labkit.data.tokenizer import Bpe
from labkit.interop import export_model, import_folder, load
from labkit.interop.tokenizer import described_bytes, described_tokenizer, write_tokenizer
from labkit.model import ModelSpec, Transformer
from labkit.spec import Mistake
from tests.interop.test_registry import LLAMA

TEXT = "naïve \u2014 <|endoftext|> don't\n\t  日本"


def model_of(spec: ModelSpec) -> Transformer:
    model = Transformer(spec, 53)
    model.initialize(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return model.eval()


GPTJ = {
    "norm": "layer",
    "residual": "parallel",
    "attention": {"kind": "mha", "n_heads": 4},
    "feedforward": {"kind": "gelu", "bias": True},
    "position": {"kind": "rope", "fraction": 0.5},
    "head": {"kind": "untied", "bias": True},
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"attention.bias": True, "position.scaling": {"kind": "ntk", "factor": 4.0}},
        {"attention.qk_norm": "rms", "attention.head_dim": 6},
        {"attention.qk_norm": "rms", "attention.qk_norm_over": "all_heads", "residual": "reordered"},
        GPTJ,
    ],
    ids=["llama", "qwen2", "qwen3", "olmo2", "gptj from halves"],
)
def test_rotated_features_are_put_in_the_architectures_order(
    transformers: Any, changes: dict[str, Any], tmp_path: Path
) -> None:
    model = model_of(LLAMA.patched(changes))
    export_model(model, tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    tokens_BT = torch.randint(0, 53, (2, 16), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        ours, wanted = theirs(tokens_BT).logits, model(tokens_BT)
    assert (ours - wanted).abs().max() < 1e-5 * wanted.abs().max()


def test_what_acts_in_training_only_is_said(tmp_path: Path) -> None:
    notes = export_model(model_of(LLAMA.patched({"dropout": 0.1, "loss.z": 1e-4})), tmp_path).notes
    assert "model.dropout.residual: 0.1 in training here, 0 in llama" in notes
    assert "model.loss.z: 0.0001 in training here, 0 in llama" in notes
    assert not any("dropout.attention" in note for note in notes)


def test_an_imported_folder_holds_the_same_parameters(tmp_path: Path) -> None:
    model = model_of(LLAMA.patched({"position.layout": "half"}))
    export_model(model, tmp_path / "theirs")
    spec = import_folder(tmp_path / "theirs", tmp_path / "ours")
    again, loaded = load(tmp_path / "ours")
    assert spec == again
    assert spec == load(tmp_path / "theirs")[0]
    assert all(torch.equal(view, logical(model)[name]) for name, view in logical(loaded).items())


def test_a_tensor_without_a_place_is_named(tmp_path: Path) -> None:
    export_model(model_of(LLAMA.patched({"head": "untied"})), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    with pytest.raises(Mistake, match=r"lm_head\.weight has no place"):
        load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(Mistake, match=r"no tensor model\.layers\.2"):
        load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 40}))
    with pytest.raises(Mistake, match=r"gate_proj\.weight: its shape is"):
        load(tmp_path)


def test_the_byte_tokenizer_gives_the_same_ids(transformers: Any, tmp_path: Path) -> None:
    write_tokenizer(described_bytes(), 16, tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    every = "".join(map(chr, range(0x250))) + TEXT
    ids = tokenizer(every, add_special_tokens=True)["input_ids"]
    assert ids == list(every.encode())
    assert tokenizer.decode(ids) == every
    assert tokenizer.eos_token_id == 256


def test_a_trained_tokenizer_comes_from_the_store(
    transformers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text("the cat sat on the mat\n" * 200)
    data = DataSpec.from_json({"corpus": {"kind": "text", "path": "text"}, "validation": 0.1})
    store = prepare(data, Bpe(vocab_size=266), tmp_path)
    encoder = store.encoder
    export_model(model_of(LLAMA), tmp_path / "out")
    write_tokenizer(described_tokenizer(Bpe(vocab_size=266), store), 16, tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    ids, _ = encoder.encode([TEXT.encode()])
    assert tokenizer(TEXT)["input_ids"] == ids.tolist()
    assert tokenizer.eos_token_id == encoder.end


def test_files_of_the_bare_model_with_computed_buffers_are_read(tmp_path: Path) -> None:
    changes = {"norm": "layer", "feedforward": {"kind": "gelu", "bias": True}, "position": "learned"}
    attention = {"kind": "mha", "n_heads": 4, "bias": True, "output_bias": True}
    model = model_of(LLAMA.patched({**changes, "attention": attention}))
    assert export_model(model, tmp_path).architecture == "GPT2LMHeadModel"
    bare = {
        name.removeprefix("transformer."): value for name, value in load_file(tmp_path / "model.safetensors").items()
    }
    save_file({**bare, "h.0.attn.bias": torch.ones(1, 1, 16, 16)}, tmp_path / "model.safetensors")
    loaded = load(tmp_path)[1]
    assert all(torch.equal(view, logical(model)[name]) for name, view in logical(loaded).items())


def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    model = model_of(LLAMA)
    export_model(model, tmp_path / "once")
    config = (tmp_path / "once" / "config.json").read_text()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    for target, said in (("once", "holds config.json"), ("file", "is a file"), ("file/deeper", "file is a file")):
        with pytest.raises(Mistake, match=said):
            export_model(model, tmp_path / target)
        with pytest.raises(Mistake, match=said):
            import_folder(tmp_path / "once", tmp_path / target)
    export_model(model, tmp_path / "empty")
    import_folder(tmp_path / "once", tmp_path / "ours")
    import_folder(tmp_path / "once", tmp_path / "ours")
    assert (tmp_path / "once" / "config.json").read_text() == config
    assert (tmp_path / "file").read_text() == "mine"


def sharded(folder: Path) -> dict[str, str]:
    """Cut the weights in two files with an index; gives where each tensor lies."""
    weights = {name: value.clone() for name, value in load_file(folder / "model.safetensors").items()}
    (folder / "model.safetensors").unlink()
    places = {name: f"model-0000{1 + index % 2}-of-00002.safetensors" for index, name in enumerate(sorted(weights))}
    for file in set(places.values()):
        save_file({name: weights[name] for name in places if places[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return places


def test_files_with_an_index_are_read_as_one(tmp_path: Path) -> None:
    model = model_of(LLAMA.patched({"position.layout": "half"}))
    export_model(model, tmp_path)
    sharded(tmp_path)
    loaded = logical(load(tmp_path)[1])
    assert all(torch.equal(loaded[name], value) for name, value in logical(model).items())


@pytest.mark.parametrize("places", [None, [], ["a"], {"a": 5}, {"a": None}, {"a": ["x"]}, {"a": "../m.safetensors"}])
def test_an_index_that_names_no_files_of_the_folder_is_refused(tmp_path: Path, places: Any) -> None:
    export_model(model_of(LLAMA), tmp_path)
    sharded(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    with pytest.raises(Mistake, match=r"weight_map has .* which names no file of the folder"):
        load(tmp_path)


def test_a_file_of_the_folder_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    export_model(model_of(LLAMA), tmp_path)
    with pytest.raises(Mistake, match=rf"config\.json: this is a file; write the folder that it lies in, {tmp_path}$"):
        load(tmp_path / "config.json")
    with pytest.raises(Mistake, match=r"gone: no such folder"):
        load(tmp_path / "gone")


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.float8_e4m3fn])
def test_numbers_that_are_not_the_weights_themselves_are_not_taken_for_them(tmp_path: Path, dtype: torch.dtype) -> None:
    export_model(model_of(LLAMA), tmp_path)
    weights = {name: value.to(dtype) for name, value in load_file(tmp_path / "model.safetensors").items()}
    (tmp_path / "model.safetensors").unlink()
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(Mistake, match=f"holds {dtype}, not one of float32, bfloat16, float16, float64"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vocab_size": 7}, r"embedding.weight is \(53, 32\) here and \(7, 32\) there"),
        ({"vocab_size": "x"}, "model.json: vocab_size = 'x' is no count"),
        ({"spec": {}}, "model.json: d_model: this field is required"),
        ({"version": 2}, "written by another labkit"),
    ],
)
def test_an_imported_folder_that_was_changed_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    export_model(model_of(LLAMA), tmp_path / "theirs")
    import_folder(tmp_path / "theirs", tmp_path / "ours")
    file = tmp_path / "ours" / "model.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(Mistake, match=said):
        load(tmp_path / "ours")
