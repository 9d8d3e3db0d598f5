import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from labkit.data import Byte, DataSpec, HuggingFace, hub, prepare
from labkit.spec import Mistake
from labkit.tracking.progress import Progress

ROWS = [{"text": f"dokument {n} ä", "n": n} for n in range(5)]
TEXTS = [row["text"] for row in ROWS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    import pyarrow
    import pyarrow.parquet

    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "c.txt").write_text("".join(text + "\n" for text in TEXTS))
    (tmp_path / "split").mkdir()
    for split, rows in {"train": ROWS[:3], "test": ROWS[3:]}.items():
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "split" / f"{split}.parquet")
    return tmp_path


def read(base: Path, path: str, **fields: Any) -> list[str]:
    source = HuggingFace(path=path, **fields).resolve(base, Progress())
    return ["".join(document) for document in source.documents()]


@pytest.mark.parametrize("path", ["a.jsonl", "b.jsonl.gz", "c.txt", "./a.*"])
def test_local_files_give_a_document_a_row(folder: Path, path: str) -> None:
    assert read(folder, path) == TEXTS


def test_a_pattern_takes_its_files_in_order(folder: Path) -> None:
    assert read(folder, "split/*.parquet") == TEXTS[3:] + TEXTS[:3]


def test_a_folder_has_the_splits_that_its_files_are_named_for(folder: Path) -> None:
    assert read(folder, "split") == TEXTS[:3]
    assert read(folder, "split", split="test") == TEXTS[3:]


def test_a_limit_takes_the_first_rows(folder: Path) -> None:
    assert read(folder, "a.jsonl", limit=2) == TEXTS[:2]


def test_a_row_without_text_is_an_empty_document(folder: Path) -> None:
    (folder / "d.jsonl").write_text('{"text": "a"}\n{"text": null}\n')
    assert read(folder, "d.jsonl") == ["a", ""]


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("a.jsonl", {"column": "txt"}, r"data\.corpus\.column: 'a.jsonl' has no column 'txt'\. Did you mean 'text'\?"),
        ("a.jsonl", {"column": "body"}, r"no column 'body'\. Choose from: n, text\."),
        ("a.jsonl", {"column": "n"}, r"data\.corpus\.column: 'n' holds int, not text"),
        ("split", {"split": "dev"}, r"data\.corpus\.path: 'split' cannot be read: .*dev"),
        ("gone.parquet", {}, r"data\.corpus\.path: 'gone.parquet' is neither"),
        (
            "a.jsonl",
            {"split": "test"},
            r"data\.corpus\.split: test changes nothing where path 'a.jsonl' is here; leave",
        ),
        ("split", {"config": "en"}, r"data\.corpus\.config: en changes nothing where path 'split' is here; leave it"),
        ("split", {"revision": "v2"}, r"data\.corpus\.revision: v2 changes nothing"),
        ("split", {"streaming": True}, r"data\.corpus\.streaming: True changes nothing"),
        ("*", {}, r"data\.corpus\.path: '\*' must mean files of one kind of \.parquet, \.jsonl"),
    ],
)
def test_what_is_not_there_is_refused(folder: Path, path: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Mistake, match=message):
        read(folder, path, **fields)


EMPTY = {"a.jsonl": b"", "b.jsonl": b"\n\n", "c.txt": b"", "d.json": b"[]", "e.jsonl.gz": gzip.compress(b"")}


@pytest.mark.parametrize("name", [*EMPTY, "f.parquet"])
def test_a_dataset_without_documents_is_refused(tmp_path: Path, name: str) -> None:
    import pyarrow
    import pyarrow.parquet

    if name == "f.parquet":
        schema = pyarrow.schema([("text", pyarrow.string())])
        pyarrow.parquet.write_table(schema.empty_table(), tmp_path / name)
    else:
        (tmp_path / name).write_bytes(EMPTY[name])
    with pytest.raises(Mistake, match=rf"data\.corpus\.path: '{name}' holds (no|a file without) documents; "):
        read(tmp_path, name)


def test_a_damaged_file_is_refused(folder: Path) -> None:
    (folder / "bad.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(Mistake, match=r"data\.corpus\.path: 'bad\.parquet' cannot be read: "):
        read(folder, "bad.parquet")


def test_a_branch_on_the_hub_is_what_it_names_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_asked", lambda *_: "a" * 40)
    source = HuggingFace(path="someone/stories").resolve(tmp_path, Progress())
    assert source.contents == source.version == "a" * 40


def test_the_hub_out_of_reach_is_as_it_was_last_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_asked", lambda *_: "b" * 40)
    HuggingFace(path="someone/stories").resolve(tmp_path, Progress())
    monkeypatch.setattr(hub, "_asked", unreachable)
    assert HuggingFace(path="someone/stories").resolve(tmp_path, Progress()).version == "b" * 40


def test_a_commit_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_asked", unreachable)
    assert HuggingFace(path="someone/stories", revision="c" * 40).resolve(tmp_path, Progress()).contents == "c" * 40


def test_looking_for_a_name_that_the_hub_cannot_give_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "_asked", unreachable)
    with pytest.raises(Mistake, match="'someone/no-such' is no file or folder here, and the hub does not give it"):
        HuggingFace(path="someone/no-such").look(tmp_path)


def test_a_name_that_the_hub_cannot_give_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_asked", unreachable)
    with pytest.raises(Mistake, match=r"'someone/stories' is no file or folder here.*no route to host\. Write a path"):
        read(tmp_path, "someone/stories")


def unreachable(*_: object) -> str:
    raise ConnectionError("no route to host")


def test_a_dataset_becomes_a_store(folder: Path) -> None:
    spec = DataSpec(corpus=HuggingFace(path="a.jsonl", limit=4), validation=0.3)
    store = prepare(spec, Byte(), folder)
    assert store.train.n_bytes + store.val.n_bytes == sum(len(text.encode()) for text in TEXTS[:4])
    assert prepare(spec, Byte(), folder).path == store.path
