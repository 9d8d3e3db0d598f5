import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from labkit.data import Bpe, Byte, DataSpec, Further, Store, Text, Tokenizer, bounds, prepare
from labkit.spec import Mistake
from labkit.tracking.progress import Advance, Progress

DATA = DataSpec(corpus=Text(path="text"), validation=0.2)


@pytest.fixture
def base(tmp_path: Path, poem: str) -> Path:
    (tmp_path / "text").mkdir()
    lines = poem.splitlines(keepends=True)
    for n in range(30):
        (tmp_path / "text" / f"{n:02}.txt").write_text("".join(lines[10 * n : 10 * n + 10]))
    return tmp_path


def texts(store: Store) -> dict[str, set[str]]:
    """The documents of each split, told by the end token."""
    found = {}
    for split in (store.train, store.val):
        ids = split.read(0, split.n_tokens)
        assert ids[-1] == store.end
        documents = np.split(ids, np.flatnonzero(ids == store.end) + 1)[:-1]
        found[split.name] = {store.decode(document) for document in documents}
    return found


@pytest.mark.parametrize("tokenizer", [Byte(), Bpe(vocab_size=300)])
def test_every_document_is_on_one_side_whole(base: Path, tokenizer: Tokenizer) -> None:
    store = prepare(DATA, tokenizer, base)
    written = {file.read_text() for file in (base / "text").iterdir()}
    sides = texts(store)
    assert sides["train"] | sides["validation"] == written
    assert not sides["train"] & sides["validation"]
    assert 0.2 <= store.val.n_bytes / (store.train.n_bytes + store.val.n_bytes) < 0.25


@pytest.mark.parametrize("tokenizer", [Byte(), Bpe(vocab_size=300)])
def test_the_bytes_of_the_tokens_are_those_of_the_text(base: Path, tokenizer: Tokenizer) -> None:
    store = prepare(DATA, tokenizer, base)
    for split, documents in zip((store.train, store.val), texts(store).values(), strict=True):
        ids = split.read(0, split.n_tokens)
        assert store.token_bytes[ids].sum() == split.n_bytes == sum(len(text.encode()) for text in documents)


def test_the_record_learns_what_the_data_is(base: Path) -> None:
    (base / "text" / "copy.txt").write_text((base / "text" / "03.txt").read_text())
    store = prepare(DATA, Byte(), base)
    facts = store.facts()
    assert facts["store"] == str(store.path)
    assert facts["hash"] == store.hash
    assert (facts["corpus"], facts["tokenizer"], facts["corpus_version"]) == ("text(path=text)", "byte", "31 files")
    assert facts["train_documents"] + facts["val_documents"] == 30
    assert facts["duplicates"] == 1
    assert facts["train_tokens"] == facts["train_bytes"] + facts["train_documents"]


def test_a_text_of_nothing_but_copies_says_so(tmp_path: Path) -> None:
    for n in range(5):
        (tmp_path / f"{n}.txt").write_text("a")
    with pytest.raises(Mistake, match=r"1 byte of text cannot be split in two\. .* 4 of its documents were left out"):
        prepare(DataSpec(corpus=Text(path="*.txt"), validation=0.5), Byte(), tmp_path)


def test_preparing_again_finds_the_store(base: Path) -> None:
    first = prepare(DATA, Byte(), base)
    made = (first.path / "store.json").stat().st_mtime_ns
    second = prepare(DATA, Byte(), base)
    assert second.path == first.path
    assert (second.path / "store.json").stat().st_mtime_ns == made
    assert second.hash == Store(first.path).hash == first.hash


def test_changed_text_never_meets_an_old_store(base: Path) -> None:
    first, file = prepare(DATA, Byte(), base), base / "text" / "07.txt"
    stat = file.stat()
    file.write_text(file.read_text().replace("rope", "hope").replace("lamp", "damp"))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    second = prepare(DATA, Byte(), base)
    assert second.path != first.path
    assert second.hash != first.hash


def test_equal_text_in_another_place_is_equal_data(base: Path) -> None:
    (base / "text").rename(base / "moved")
    moved = prepare(DATA.patched({"corpus.path": "moved"}), Byte(), base)
    (base / "moved").rename(base / "text")
    assert prepare(DATA, Byte(), base).hash == moved.hash


def test_each_choice_has_a_store_of_its_own(base: Path) -> None:
    stores = [
        prepare(DATA, Byte(), base),
        prepare(DATA.patched({"validation": 0.3}), Byte(), base),
        prepare(DATA, Bpe(vocab_size=300), base),
        prepare(DATA, Bpe(vocab_size=310), base),
    ]
    assert len({store.path for store in stores}) == len({store.hash for store in stores}) == 4


def test_the_tokenizer_never_sees_the_validation_split(base: Path) -> None:
    marks = [chr(0x4E00 + n) for n in range(30)]
    for mark, file in zip(marks, (base / "text").iterdir(), strict=True):
        file.write_text(mark * 100)
    store = prepare(DATA, Bpe(vocab_size=360), base)
    trained_on = {text[0] for text in texts(store)["train"]}
    known = {mark for mark in marks if any(mark.encode() in token for token in store.vocabulary)}
    assert known == trained_on != set(marks)


def test_a_corpus_that_changes_while_it_is_read_is_refused(base: Path) -> None:
    class Meddling(Progress):
        @contextmanager
        def task(self, description: str, total: float | None = None, unit: str = "") -> Generator[Advance]:
            yield lambda _: None
            if description == "reading the corpus":
                (base / "text" / "00.txt").write_text("changed")

    with pytest.raises(Mistake, match=r"data\.corpus: the corpus changed while it was read"):
        prepare(DATA, Byte(), base, Meddling())


def test_a_failure_leaves_nothing(base: Path, cache: Path) -> None:
    with pytest.raises(Mistake, match=r"tokenizer\.vocab_size"):
        prepare(DATA, Bpe(vocab_size=5000), base)
    assert [path.suffix for path in (cache / "stores").iterdir()] == [".lock"]


def test_a_damaged_store_is_refused(base: Path) -> None:
    store = prepare(DATA, Byte(), base)
    (store.path / "train-00000.bin").write_bytes(b"")
    with pytest.raises(Mistake, match=r"train-00000\.bin has 0 bytes .* Remove the folder"):
        prepare(DATA, Byte(), base)


@pytest.mark.parametrize(
    "damaged",
    [b"", b"[1]", b"\xff", b'{"version": 1}', b'{"version": 1, "hash": "x", "dtype": "<u2", "train": 3}'],
    ids=["empty", "a list", "bytes", "half", "a number"],
)
def test_a_damaged_description_of_a_store_says_what_to_remove_and_that_mends_it(base: Path, damaged: bytes) -> None:
    also = (Further(name="more", corpus=Text(path="text")),)
    store = prepare(DATA, Byte(), base, also=also)
    for folder in (store.path, store.also["more"].path):
        whole = (folder / "store.json").read_bytes()
        (folder / "store.json").write_bytes(damaged)
        with pytest.raises(Mistake, match=rf"store\.json .*\. Remove the folder {folder} and run again"):
            prepare(DATA, Byte(), base, also=also)
        shutil.rmtree(folder)
        prepare(DATA, Byte(), base, also=also)
        assert (folder / "store.json").read_bytes() == whole


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="is no data store of this labkit"):
        Store(tmp_path)


def test_a_cache_that_cannot_be_written_is_named(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base / "file").write_text("in the way")
    monkeypatch.setenv("LABKIT_CACHE", str(base / "file"))
    with pytest.raises(
        Mistake, match=r"LABKIT_CACHE: cannot write to .*file \(Not a directory\)\. Set the environment"
    ):
        prepare(DATA, Byte(), base)


def test_a_home_in_which_no_cache_can_be_made_is_told_as_the_cache(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_CACHE", "")
    monkeypatch.setenv("HOME", "/proc")
    with pytest.raises(Mistake, match=r"LABKIT_CACHE: cannot write to /proc/\.cache/labkit \(No such file"):
        prepare(DATA, Byte(), base)


def test_a_text_of_one_document_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a")
    with pytest.raises(Mistake, match=r"data\.corpus: 1 byte of text cannot be split"):
        prepare(DATA, Byte(), tmp_path)


# Processes

SCRIPT = """
import sys, time
from contextlib import contextmanager
from pathlib import Path
from labkit.data import Byte, DataSpec, Text, prepare
from labkit.tracking.progress import Progress

class Slow(Progress):
    @contextmanager
    def task(self, description, total=None, unit=""):
        print(description, flush=True)
        if description.startswith("tokenizing"):
            time.sleep(float(sys.argv[2]))
        yield lambda _: None

store = prepare(DataSpec(corpus=Text(path="text"), validation=0.2), Byte(), Path(sys.argv[1]), Slow())
print(store.hash)
"""


def start(base: Path, slowness: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SCRIPT, str(base), str(slowness)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_make_one_store_once(base: Path) -> None:
    outputs = [process.communicate(timeout=60)[0] for process in [start(base, 1), start(base, 1)]]
    assert sum("tokenizing the train split" in output for output in outputs) == 1
    assert sum("waiting for another process" in output for output in outputs) == 1
    assert len({output.splitlines()[-1] for output in outputs}) == 1


def test_a_killed_process_leaves_nothing_in_the_way(base: Path, cache: Path) -> None:
    process = start(base, 60)
    assert process.stdout is not None
    while "tokenizing" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [path.name.endswith(".unfinished") for path in (cache / "stores").iterdir() if path.is_dir()] == [True]
    store = prepare(DATA, Byte(), base)
    assert store.train.n_tokens
    assert [path for path in (cache / "stores").iterdir() if path.is_dir()] == [store.path]


def test_a_sample_validates_on_training_tokens_that_end_a_document(base: Path) -> None:
    store = prepare(DATA, Byte(), base)
    sample = store.sampled(11)
    assert sample.val.read(0, 99).tolist() == [*store.train.read(0, 10), store.end]
    assert (sample.val.n_tokens, bounds(sample.val, store.end)[-1, 1]) == (11, 11)
    assert sample.val.n_bytes == len(sample.decode(sample.val.read(0, 11)).encode())
    assert (sample.train, store.val.name) == (store.train, sample.val.name)
    assert store.val.n_tokens > 11
