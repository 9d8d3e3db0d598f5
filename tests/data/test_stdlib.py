import sysconfig
from pathlib import Path

import pytest

from labkit.data import Stdlib
from labkit.data.stdlib import MODULES, library
from labkit.spec import Mistake
from labkit.tracking.progress import Progress


def test_there_are_megabytes_of_it_in_hundreds_of_documents() -> None:
    source = Stdlib().resolve(Path(), Progress())
    texts = ["".join(document) for document in source.documents()]
    assert 300 < len(texts) < 400
    assert 6e6 < sum(len(text.encode()) for text in texts) < 8e6
    assert source.version.startswith("Python 3.")


def test_the_same_library_has_the_same_name() -> None:
    assert Stdlib().resolve(Path(), Progress()).contents == Stdlib().resolve(Path("/"), Progress()).contents


def test_tests_and_tables_are_left_out(tmp_path: Path) -> None:
    build(tmp_path)
    for extra in ("unittest/test/__init__.py", "html/entities.py", "encodings/cp037.py"):
        (tmp_path / extra).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / extra).write_text("extra")
    assert "extra" not in library(tmp_path)


def test_distributions_and_systems_agree_on_a_file(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "pdb.py").write_bytes(b"#! /usr/bin/python3.11\r\nimport cmd\r\n")
    assert "import cmd\n" in library(tmp_path)


def test_modules_and_packages_are_all_importable_here() -> None:
    root = Path(sysconfig.get_path("stdlib"))
    assert all((root / f"{name}.py").exists() or (root / name).is_dir() for name in MODULES.split())


def test_a_library_with_holes_is_refused(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "json.py").unlink()
    with pytest.raises(Mistake, match=r"data\.corpus: .* lacks the source of json\. Install the whole library"):
        library(tmp_path)


def build(root: Path) -> None:
    for name in MODULES.split():
        (root / f"{name}.py").write_text(f"# {name}\n")
