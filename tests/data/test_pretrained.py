import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Library

from labkit.data import Bpe, DataSpec, Pretrained, Text, prepare
from labkit.spec import Mistake


@pytest.fixture
def library(poem: str) -> Library:
    """Byte-level, with all that can go wrong: special tokens around each text, cutting, padding, plain added tokens."""
    tokenizer = Library(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "<|endoftext|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([poem], trainer)
    tokenizer.add_tokens([AddedToken("lamp of", normalized=False), AddedToken("日本!")])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding()
    return tokenizer


def stored(folder: Path, library: Library, text: str, **fields: Any) -> Any:
    (folder / "a.txt").write_text(text)
    library.save(str(folder / "tokenizer.json"))
    data = DataSpec(corpus=Text(path="a.txt"), validation=0.2)
    return prepare(data, Pretrained(path="tokenizer.json", **fields), folder)


def test_the_text_comes_back_whole(tmp_path: Path, library: Library, poem: str) -> None:
    text = poem + "<s> is no mark in a text, <|endoftext|> ends none, 日本! 日本\n"
    store = stored(tmp_path, library, text)
    parts = [store.decode(split.read(0, split.n_tokens)) for split in (store.train, store.val)]
    assert sorted("".join(parts).splitlines()) == sorted(text.splitlines())
    assert store.train.n_bytes + store.val.n_bytes == len(text.encode())
    assert store.end == 1
    assert (store.train.read(0, store.train.n_tokens) == 1).sum() == store.train.n_documents


def test_its_size_is_read_from_its_file(tmp_path: Path, library: Library, poem: str) -> None:
    store = stored(tmp_path, library, poem)
    assert Pretrained(path=".").size(tmp_path) == store.size == library.get_vocab_size() == 402


def test_composing_characters_is_accounted_for(tmp_path: Path, library: Library, poem: str) -> None:
    library.normalizer = normalizers.NFC()
    decomposed = poem.replace("ä", "a\u0308")
    store = stored(tmp_path, library, decomposed)
    assert store.train.n_bytes + store.val.n_bytes == len(poem.encode()) < len(decomposed.encode())


def test_another_file_makes_another_store(tmp_path: Path, library: Library, poem: str) -> None:
    first = stored(tmp_path, library, poem)
    library.add_tokens(["slowly under"])
    second = stored(tmp_path, library, poem)
    assert first.path != second.path
    assert (first.size, second.size) == (402, 403)


def lowering(library: Library) -> None:
    library.normalizer = normalizers.Lowercase()


def removing(library: Library) -> None:
    library.normalizer = normalizers.Replace(" rope", "")


def replacing(library: Library) -> None:
    library.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace("rope", "robe")])


def prefixing(library: Library) -> None:
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lowering, r"'ROPE turned .*' after 'the ' comes back as 'rope turned .*'"),
        (removing, r"'rope .*' after '.* ' comes back as '.*'"),
        (replacing, r"'pe.*' after '.* ro' comes back as 'be.*'"),
        (prefixing, r"'.*' after '' comes back as ' .*'"),
    ],
)
def test_a_tokenizer_that_changes_the_text_is_refused_with_the_first_difference(
    tmp_path: Path, library: Library, poem: str, change: Callable[[Library], None], difference: str
) -> None:
    change(library)
    text = "the ROPE turned slowly\n" * 300 if change is lowering else poem
    with pytest.raises(
        Mistake, match=rf"tokenizer\.path: this tokenizer changes the text: {difference}, so .* byte-level"
    ):
        stored(tmp_path, library, text)


def test_a_tokenizer_without_a_word_for_the_text_is_refused(tmp_path: Path, poem: str) -> None:
    library = Library(models.BPE({"<|endoftext|>": 0, "日": 1}, []))
    with pytest.raises(Mistake, match=r"tokenizer\.path: this tokenizer changes the text: .* comes back as"):
        stored(tmp_path, library, poem)


def test_a_tokenizer_that_fails_on_the_text_is_refused_in_one_line(tmp_path: Path, poem: str) -> None:
    library = Library(models.WordLevel({"the": 0}, unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(Mistake, match=r"^tokenizer\.path: this tokenizer cannot encode the text: [^\n]*byte-level"):
        stored(tmp_path, library, poem, end="the")


def test_sentencepiece_bytes_and_spaces_are_told(tmp_path: Path, poem: str) -> None:
    vocab = (
        {"</s>": 0, "<unk>": 1} | {f"<0x{value:02X}>": 2 + value for value in range(256)} | {"\u2581": 258, "t": 259}
    )
    library = Library(models.BPE(vocab | {"\u2581t": 260}, [("\u2581", "t")], byte_fallback=True, unk_token="<unk>"))
    library.normalizer = normalizers.Replace(" ", "\u2581")
    library.add_special_tokens(["</s>", "<unk>"])
    store = stored(tmp_path, library, poem, end="</s>")
    assert store.train.n_bytes + store.val.n_bytes == len(poem.encode())
    assert store.token_bytes[[0, 5, 258, 260]].tolist() == [0, 1, 1, 2]
    assert store.decode(store.train.read(0, 40)) in poem


def test_a_missing_end_token_is_refused_with_those_that_there_are(tmp_path: Path, library: Library, poem: str) -> None:
    with pytest.raises(Mistake, match=r"tokenizer\.end: .* no token '<eos>' .* special tokens: <s>, <\|endoftext\|>\."):
        stored(tmp_path, library, poem, end="<eos>")


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": 3}))
    with pytest.raises(Mistake, match=r"tokenizer\.path: .*tokenizer\.json is not a tokenizer\.json"):
        Pretrained(path="tokenizer.json").size(tmp_path)


def test_a_vocabulary_that_no_embedding_could_hold_is_refused(tmp_path: Path) -> None:
    described = json.loads(Library(models.WordLevel({"the": 0}, unk_token="the")).to_str())
    described["model"]["vocab"]["of"] = 2**32 - 1
    (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    with pytest.raises(Mistake, match=r"tokenizer\.path: .* gives the token 'of' the id 4294967295, but ids are below"):
        Pretrained(path="tokenizer.json", end="the").size(tmp_path)


def test_a_revision_of_a_file_that_is_here_is_refused(tmp_path: Path, library: Library, poem: str) -> None:
    with pytest.raises(
        Mistake, match=r"tokenizer\.revision: v2 changes nothing where .*tokenizer\.json is here; leave"
    ):
        stored(tmp_path, library, poem, revision="v2")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=r"tokenizer\.path: no such file: .*gone\.json"):
        Pretrained(path="gone.json").size(tmp_path)


def test_a_name_that_the_hub_cannot_give_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def unreachable(*_: object, **__: object) -> str:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    with pytest.raises(Mistake, match=r"tokenizer\.path: 'someone/words' is no file here.*no route to host"):
        Pretrained(path="someone/words").size(tmp_path)


def test_what_bpe_trained_can_be_used_again(tmp_path: Path, poem: str) -> None:
    (tmp_path / "a.txt").write_text(poem)
    data = DataSpec(corpus=Text(path="a.txt"), validation=0.2)
    trained = prepare(data, Bpe(vocab_size=300), tmp_path)
    again = prepare(data, Pretrained(path=str(trained.path)), tmp_path)
    assert again.path != trained.path
    assert again.hash == trained.hash
