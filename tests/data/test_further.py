"""Validation sets beside the run's own."""

from pathlib import Path

import pytest

from labkit.data import Bpe, Byte, DataSpec, Further, Store, Text, Tokenizer, bounds, prepare
from labkit.faults import explain
from labkit.spec import Mistake, ValidationError
from labkit.train.run import RunSpec
from tests.specs import TINY

DATA = DataSpec(corpus=Text(path="text"), validation=0.2)
BOOKS = Further(name="books", corpus=Text(path="books/*.txt"))


@pytest.fixture
def base(tmp_path: Path, poem: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    for folder, lines in (("text", poem.splitlines(keepends=True)), ("books", poem.upper().splitlines(keepends=True))):
        (tmp_path / folder).mkdir()
        for n in range(25):
            (tmp_path / folder / f"{n:02}.txt").write_text("".join(lines[4 * n : 4 * n + 4]))
    (tmp_path / "books" / "copy.txt").write_text((tmp_path / "books" / "03.txt").read_text())
    return tmp_path


@pytest.mark.parametrize("tokenizer", [Byte(), Bpe(vocab_size=300)])
def test_all_of_a_corpus_is_in_the_tokens_of_the_runs_own_data(base: Path, tokenizer: Tokenizer) -> None:
    store = prepare(DATA, tokenizer, base, also=[BOOKS])
    split = store.also["books"].split
    ids = split.read(0, split.n_tokens)
    texts = [store.decode(ids[start : stop - 1]) for start, stop in bounds(split, store.end)]
    assert sorted(texts) == sorted({file.read_text() for file in (base / "books").iterdir()})
    assert (split.n_documents, split.n_bytes) == (25, sum(len(text.encode()) for text in texts))


def test_the_runs_own_data_stays_what_it_is(base: Path) -> None:
    alone, beside = prepare(DATA, Byte(), base), prepare(DATA, Byte(), base, also=[BOOKS])
    assert (alone.hash, alone.path, alone.identity) == (beside.hash, beside.path, beside.hash)
    assert beside.identity != beside.hash
    facts = beside.facts()
    assert facts["also"]["books"]["corpus"] == "text(path=books/*.txt)"
    assert facts["also"]["books"]["duplicates"] == 1
    assert {name: value for name, value in facts.items() if name not in ("also", "identity")} == alone.facts()


def test_it_is_made_once_and_again_when_its_text_changes(base: Path) -> None:
    first = prepare(DATA, Byte(), base, also=[BOOKS])
    assert prepare(DATA, Byte(), base, also=[BOOKS]).also["books"].path == first.also["books"].path
    (base / "books" / "00.txt").write_text("another text altogether\n")
    second = prepare(DATA, Byte(), base, also=[BOOKS])
    assert second.also["books"].path != first.also["books"].path
    assert second.identity != first.identity


def test_few_documents_are_cut_so_that_there_is_text_to_resample(base: Path) -> None:
    store = prepare(DATA, Byte(), base, also=[Further(name="one", corpus=Text(path="books/01.txt"))])
    assert store.also["one"].split.n_documents > 1


def test_a_store_remembers_its_further_sets_by_their_folders(base: Path) -> None:
    made = prepare(DATA, Byte(), base, also=[BOOKS])
    opened = Store(made.path, {name: whole.path for name, whole in made.also.items()})
    assert opened.identity == made.identity


def test_sets_are_given_by_name_and_keep_the_fingerprint_of_a_run_without_them() -> None:
    spec = RunSpec.from_json(TINY)
    named = spec.patched({"evaluation.also": {"books": {"kind": "text", "path": "books"}, "code": "stdlib"}})
    assert [one.name for one in named.evaluation.also] == ["books", "code"]
    assert RunSpec.from_json(named.as_json()) == named
    assert named.fingerprint != spec.fingerprint == spec.patched({"evaluation.also": ()}).fingerprint
    assert named.patched({"evaluation.also.0.corpus.path": "more"}).evaluation.also[0].corpus.path == "more"


@pytest.mark.parametrize(
    ("also", "words"),
    [
        ({"Books!": "stdlib"}, "'Books!' is no name of a validation set"),
        ({"loss": "stdlib"}, "'loss' is no name of a validation set"),
        (({"name": "a", "corpus": "stdlib"},) * 2, "two sets are called 'a'"),
        ({"a": "nowhere"}, "unknown Corpus kind 'nowhere'"),
    ],
)
def test_a_set_that_cannot_be_is_refused(also: object, words: str) -> None:
    with pytest.raises(ValidationError) as error:
        RunSpec.from_json(TINY).patched({"evaluation.also": also})
    assert words in explain(error.value, RunSpec)
    assert "evaluation.also" in explain(error.value, RunSpec)


def test_a_mistake_in_a_set_names_it(base: Path) -> None:
    with pytest.raises(Mistake, match=r"evaluation\.also, gone: .*nowhere"):
        prepare(DATA, Byte(), base, also=[Further(name="gone", corpus=Text(path="nowhere"))])
