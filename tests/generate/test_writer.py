"""From a run's folder to text: the command line on tiny trained runs."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer as Library
from typer.testing import CliRunner, Result

from labkit.cli import app
from labkit.components.parameters import logical
from labkit.data import prepare
from labkit.generate.writer import legible
from labkit.tracking.record import Run
from labkit.train.finished import finished
from labkit.train.loop import train
from labkit.train.run import RunSpec, Runtime
from tests.specs import TINY

HERE = {
    "data.corpus.path": "../../../../text",
    "budget.steps": 8,
    "evaluation": {"points": 1, "windows": 2, "beyond": []},
}
"""Where the run's folder is not that of the text; in a moment."""

Ask = Callable[..., Result]


@pytest.fixture
def trained(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """A run of the project, trained in a moment."""
    monkeypatch.chdir(project)

    def made(changes: dict[str, Any] | None = None, steps: int = 8) -> Run:
        spec = RunSpec.from_json(TINY).patched({**HERE, **(changes or {})})
        edition = project / "runs" / "tiny" / "main"
        run = Run(edition / "plain" / "seed0-0123456789abcdef")
        names = {"variant": "plain", "arm": "0123456789abcdef", "fingerprint": "0123456789abcdef", "seed_index": 0}
        run.create(spec.as_json(), {"base": str(edition / "plain"), "sources": {}, **names})
        (edition / "experiment.json").write_text("{}")
        store = prepare(spec.data, spec.tokenizer, edition / "plain")
        made_steps = iter(range(steps))
        train(run, spec, Runtime(device="cpu"), store, lambda: next(made_steps, None) is None)
        return run

    return made


@pytest.fixture
def ask() -> Ask:
    return lambda *words: CliRunner().invoke(app, ["generate", *(str(word) for word in words)])


def texts(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["texts"]


def library(project: Path) -> Library:
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = Library(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|endoftext|>"]
    tokenizer.train_from_iterator(
        ["the quick brown fox"] * 9,
        trainers.BpeTrainer(vocab_size=270, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    return tokenizer


@pytest.mark.parametrize("tokenizer", ["byte", {"kind": "bpe", "vocab_size": 280}, "pretrained"], ids=str)
def test_a_trained_run_writes(project: Path, trained: Callable[..., Run], ask: Ask, tokenizer: Any) -> None:
    if tokenizer == "pretrained":
        library(project).save(str(project / "tokenizer.json"))
        tokenizer = {"kind": "pretrained", "path": str(project / "tokenizer.json")}
    run = trained({"tokenizer": tokenizer})
    words = (run.path, "--prompt", "the quick", "--prompt", "", "--prompt", "a lazy dög", "--tokens", 12, "--json")
    first = texts(ask(*words))
    assert [text["prompt"] for text in first] == ["the quick", "", "a lazy dög"]
    assert all(text["ended"] or len(text["tokens"]) == 12 for text in first)
    assert first == texts(ask(*words)) == texts(ask("tiny:plain:0", *words[1:])) == texts(ask(*words, "--no-cache"))
    assert first != texts(ask(*words, "--seed", 1))
    alone = texts(ask(run.path, "--prompt", "a lazy dög", "--tokens", 12, "--json"))
    assert alone == first[2:]
    shown = ask(run.path, "--prompt", "the quick", "--tokens", 12, "--greedy")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("the quick")


def test_a_store_that_is_gone_is_made_again(trained: Callable[..., Run], ask: Ask) -> None:
    run = trained({"tokenizer": {"kind": "bpe", "vocab_size": 280}})
    words = (run.path, "--prompt", "the", "--tokens", 5, "--json")
    before = texts(ask(*words))
    shutil.rmtree(run.record()["data"]["store"])
    assert texts(ask(*words)) == before


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
def test_a_finished_model_has_the_weights_and_the_precision_of_its_run(
    trained: Callable[..., Run], precision: str
) -> None:
    run = trained({"precision": precision})
    model = finished(run, RunSpec.from_json(run.spec()), torch.device("cpu"))
    saved = load_file(run.checkpoints / "final.safetensors")
    views = logical(model)
    assert views.keys() == saved.keys()
    assert all(torch.equal(view, saved[name].to(view.dtype)) for name, view in views.items())
    wanted = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp64": torch.float64}[precision]
    assert views["layers.0.attention.query.weight"].dtype == wanted
    assert views["norm.gain"].dtype == (torch.float32 if precision == "bf16" else wanted)


def test_what_cannot_be_is_said_in_one_message(trained: Callable[..., Run], ask: Ask) -> None:
    run = trained()
    for words, told in (
        ((run.path, "--tokens", 0), "--tokens"),
        ((run.path, "--tokens", 2**40), "--tokens"),
        ((run.path, "--temperature", -1), "--temperature"),
        ((run.path, "--top-p", 0), "--top-p"),
        ((run.path, "--top-p", 1.5), "--top-p"),
        ((run.path, "--top-k", 0), "--top-k"),
        ((run.path, "--greedy", "--temperature", 0.5), "--greedy"),
        ((run.path, "--device", "tpu"), "--device"),
        (("nowhere",), "nowhere"),
        (("tiny:plain:7",), "plain:7"),
        (("huge:plain:0",), "huge"),
    ):
        answer = ask(*words)
        assert answer.exit_code == 2, answer.output
        assert told in answer.stderr
        assert answer.stderr.count("labkit:") == 1
        assert "Traceback" not in answer.stderr


def test_an_unfinished_run_is_refused(trained: Callable[..., Run], ask: Ask) -> None:
    answer = ask(trained(steps=3).path)
    assert answer.exit_code == 2
    assert "paused" in answer.stderr


def test_weights_that_are_not_the_specs_are_refused(trained: Callable[..., Run], ask: Ask) -> None:
    run = trained()
    file = run.checkpoints / "final.safetensors"
    weights = load_file(file)
    weights["other"] = weights.pop("norm.gain")
    save_file(weights, file)
    answer = ask(run.path)
    assert answer.exit_code == 2
    assert "norm.gain, other" in " ".join(answer.stderr.split())
    file.write_bytes(b"torn")
    assert ask(run.path).exit_code == 2


def test_a_vocabulary_of_another_size_than_the_data_has_is_refused(trained: Callable[..., Run], ask: Ask) -> None:
    run = trained()
    file = run.checkpoints / "final.safetensors"
    weights = load_file(file)
    save_file({**weights, "embedding.weight": weights["embedding.weight"][:100].clone()}, file)
    answer = ask(run.path)
    assert answer.exit_code == 2
    assert "its weights are of 100 tokens" in " ".join(answer.stderr.split())


@pytest.mark.parametrize("name", ["vocabulary.json", "tokenizer.json"])
def test_a_damaged_tokenizer_of_the_store_is_named(trained: Callable[..., Run], ask: Ask, name: str) -> None:
    run = trained({"tokenizer": {"kind": "bpe", "vocab_size": 280}})
    file = Path(run.record()["data"]["store"]) / name
    before = file.read_bytes()
    file.write_bytes(before[:-9])
    answer = ask(run.path)
    file.write_bytes(before)
    assert answer.exit_code == 2
    assert f"{name} cannot be read" in " ".join(answer.stderr.split())


def test_a_pretrained_tokenizer_is_that_of_the_store_when_its_file_is_gone(
    project: Path, trained: Callable[..., Run], ask: Ask
) -> None:
    file = project / "tokenizer.json"
    library(project).save(str(file))
    words = (trained({"tokenizer": {"kind": "pretrained", "path": str(file)}}).path, "--tokens", 5, "--json")
    before = texts(ask(*words))
    file.unlink()
    assert texts(ask(*words)) == before


def test_no_text_steers_the_terminal() -> None:
    assert legible("a\x1b[2J\r\x07é\n\tb") == "a�[2J��é\n\tb"
