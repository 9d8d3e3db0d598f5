import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from labkit.data import Packages
from labkit.data.packages import sources
from labkit.spec import Mistake
from labkit.tracking.progress import Progress


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of three files, of which one is not UTF-8."""
    root = tmp_path / "of_three"
    (root / "inner").mkdir(parents=True)
    (root / "__init__.py").write_text("first = 1\n")
    (root / "inner" / "deep.py").write_text("second = 'ü'\n")
    (root / "latin.py").write_bytes(b"# \xfc\n")
    (root / "notes.txt").write_text("not Python")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return root


def text(*names: str) -> list[str]:
    return ["".join(document) for document in Packages(names=names).resolve(Path(), Progress()).documents()]


def test_every_file_of_python_is_a_document_and_nothing_is_imported(package: Path) -> None:
    assert text("of_three") == ["first = 1\n", "second = 'ü'\n"]
    assert "of_three" not in sys.modules


def test_packages_follow_on_each_other_in_the_order_of_their_names(package: Path) -> None:
    assert text("of_three", "rich")[:2] == text("rich", "of_three")[-2:]


def test_a_package_that_is_named_twice_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"'rich' stands twice; write each once: \['rich', 'torch'\]"):
        Packages(names=("rich", "torch", "rich"))


def test_a_record_can_say_which_versions_it_was(package: Path) -> None:
    version = Packages(names=("rich", "of_three")).resolve(Path(), Progress()).version
    assert version.startswith("rich 1")
    assert version.endswith(", of_three")


def test_a_changed_file_is_another_text(package: Path) -> None:
    before = Packages(names=("of_three",)).resolve(Path(), Progress()).contents
    (package / "__init__.py").write_text("first = 2\n")
    assert Packages(names=("of_three",)).resolve(Path(), Progress()).contents != before


@pytest.mark.parametrize("name", ["no_such_package", "torch.nn", "../x", "math"])
def test_what_is_no_package_is_refused_by_name(name: str) -> None:
    with pytest.raises(Mistake, match=r"data\.corpus\.names: no Python sources of a package"):
        sources(name)
