import os
from pathlib import Path

import pytest

from labkit.data import files
from labkit.spec import Mistake
from labkit.tracking.progress import Progress


def digest(file: Path) -> str:
    return files.digest([file], Progress())


def test_changed_contents_have_another_name_even_at_the_same_size_and_time(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    before, stat = digest(file), file.stat()
    file.write_text("two")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert digest(file) != before


def test_files_that_rest_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SETTLED_NS", -1)
    (tmp_path / "a.txt").write_text("one")
    first = digest(tmp_path / "a.txt")
    monkeypatch.delattr(files, "_read")
    assert digest(tmp_path / "a.txt") == first


def test_a_damaged_memory_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(files, "SETTLED_NS", -1)
    (tmp_path / "a.txt").write_text("one")
    first = digest(tmp_path / "a.txt")
    (memory,) = (cache / "contents").iterdir()
    memory.write_bytes(b"\xff{")
    assert digest(tmp_path / "a.txt") == first


def test_files_that_just_changed_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one")
    digest(tmp_path / "a.txt")
    monkeypatch.setattr(files, "_read", lambda *_: "read")
    assert digest(tmp_path / "a.txt") == "read"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=r"data\.corpus\.path: .*gone\.txt cannot be read: No such file"):
        digest(tmp_path / "gone.txt")
