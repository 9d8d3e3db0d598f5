from pathlib import Path

import pytest

from labkit.data import Corpus, Text
from labkit.data import corpus as module
from labkit.spec import Mistake, Spec
from labkit.tracking.progress import Progress


def read(corpus: Corpus, base: Path) -> list[str]:
    return ["".join(document) for document in corpus.resolve(base, Progress()).documents()]


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.txt").write_bytes(text.encode())


def test_a_file_is_a_document_as_it_stands(tmp_path: Path) -> None:
    write(tmp_path, a="first\r\nsecond\n\nä")
    assert read(Text(path="a.txt"), tmp_path) == ["first\r\nsecond\n\nä"]


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "books" / "deep").mkdir(parents=True)
    write(tmp_path / "books", b="B", a="A")
    write(tmp_path / "books" / "deep", c="C")
    (tmp_path / "books" / ".hidden").write_bytes(b"\xff")
    assert read(Text(path="books"), tmp_path) == ["A", "B", "C"]


def test_a_pattern_takes_the_files_that_fit(tmp_path: Path) -> None:
    odd = tmp_path / "an [odd] name"
    odd.mkdir()
    write(odd, a="A", b="B")
    (odd / "c.png").write_bytes(b"\xff")
    assert read(Text(path="*.txt"), odd) == ["A", "B"]
    assert read(Text(path=f"{tmp_path}/**/b.txt"), odd) == ["B"]


def test_characters_cross_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 3)
    write(tmp_path, a="ä日🎈" * 5)
    assert read(Text(path="a.txt"), tmp_path) == ["ä日🎈" * 5]


def test_the_contents_are_named_by_what_is_in_the_files_alone(tmp_path: Path) -> None:
    write(tmp_path, a="same", b="same", c="other")
    one, two, three = (Text(path=f"{n}.txt").resolve(tmp_path, Progress()).contents for n in "abc")
    assert one == two != three


def test_a_users_own_corpus_is_one_class(tmp_path: Path) -> None:
    from typing import Literal

    from labkit.data import Source

    class Numbers(Corpus):
        """The numbers below n."""

        kind: Literal["numbers"] = "numbers"
        n: int

        def resolve(self, base: Path, progress: Progress) -> Source:
            return Source(str(self.n), "", lambda: ((str(i),) for i in range(self.n)))

    class Holder(Spec):
        corpus: Corpus

    assert read(Holder.from_json({"corpus": {"kind": "numbers", "n": 3}}).corpus, tmp_path) == ["0", "1", "2"]


@pytest.mark.parametrize(("chunk", "tail"), [(1 << 20, b"\xff"), (3, b"\xff"), (3, b"\xe6\x97")])
def test_bytes_that_are_no_text_are_named_with_file_and_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, tail: bytes
) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    (tmp_path / "a.txt").write_bytes("äöü fine ".encode() + tail)
    with pytest.raises(Mistake, match=r"data\.corpus\.path: .*a\.txt is not UTF-8 text: byte 0x.. at offset 12\."):
        read(Text(path="a.txt"), tmp_path)


@pytest.mark.parametrize("path", ["missing.txt", "missing/*.txt", "empty"])
def test_a_path_to_nothing_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(Mistake, match=rf"data\.corpus\.path: '{path.replace('*', '.')}' .*Write a path relative to"):
        read(Text(path=path), tmp_path)
