"""The user's own source: found, copied, and loaded again from the copy."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import labkit.tracking.source
from labkit.spec import Mistake
from labkit.tracking.source import capture, check, imported_sources, load


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    root = tmp_path / "project"
    (root / "studies").mkdir(parents=True)
    (root / "studies" / "neighbour_of_test.py").write_text("value = 3\n")
    (root / "studies" / "one_test_study.py").write_text(
        "from studies.neighbour_of_test import value\ndouble = 2 * value\n"
    )
    yield root
    for name in ("studies.one_test_study", "studies.neighbour_of_test", "studies"):
        sys.modules.pop(name, None)


def test_a_file_is_loaded_by_path_with_its_neighbours(project: Path) -> None:
    module = load(project / "studies" / "one_test_study.py", project)
    assert module.double == 6
    assert sys.modules["studies.one_test_study"] is module


def test_the_sources_are_the_file_and_the_local_modules_it_imported(project: Path) -> None:
    file = project / "studies" / "one_test_study.py"
    load(file, project)
    assert list(imported_sources(project, file)) == ["studies/neighbour_of_test.py", "studies/one_test_study.py"]


def test_what_labkit_imports_of_itself_is_no_source_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(labkit.__file__).parents[1]
    monkeypatch.setitem(sys.modules, "__mp_main__", labkit.tracking.source)
    assert not [path for path in imported_sources(root).values() if path.is_relative_to(root / "labkit")]


def test_python_itself_is_no_source_of_a_project_that_it_lies_in() -> None:
    root = Path(json.__file__).parents[2]
    assert not [path for path in imported_sources(root).values() if path.is_relative_to(Path(json.__file__).parents[1])]


def test_a_module_keeps_the_name_that_it_was_imported_by(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder may be on the path, and it may be a link to a file of another project."""
    (project / "src" / "parts_of_test").mkdir(parents=True)
    (project / "src" / "parts_of_test" / "__init__.py").write_text("")
    (project.parent / "elsewhere.py").write_text("value = 3\n")
    (project / "src" / "parts_of_test" / "linked.py").symlink_to(project.parent / "elsewhere.py")
    file = project / "one_test_file.py"
    file.write_text("from parts_of_test.linked import value\n")
    monkeypatch.syspath_prepend(project / "src")
    load(file, project)
    hashes = capture(project / "copy", imported_sources(project, file))
    assert list(hashes) == ["one_test_file.py", "parts_of_test/__init__.py", "parts_of_test/linked.py"]
    sys.path.remove(str(project / "src"))
    for name in ("one_test_file", "parts_of_test.linked", "parts_of_test"):
        sys.modules.pop(name)
    assert load(project / "copy" / "one_test_file.py", project / "copy").value == 3
    for name in ("one_test_file", "parts_of_test.linked", "parts_of_test"):
        assert Path(str(sys.modules.pop(name).__file__)).is_relative_to(project / "copy")


def test_a_copy_is_loaded_whatever_else_has_its_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file in the root of a project does that is on the path, and so for a worker seems to be installed."""
    (project / "one_test_file.py").write_text("value = 3\n")
    monkeypatch.syspath_prepend(project)
    capture(project / "copy", {"one_test_file.py": project / "one_test_file.py"})
    assert load(project / "copy" / "one_test_file.py", project / "copy").value == 3
    del sys.modules["one_test_file"]


def test_a_copy_has_the_same_places_and_known_hashes(project: Path, tmp_path: Path) -> None:
    file = project / "studies" / "one_test_study.py"
    load(file, project)
    hashes = capture(tmp_path / "copy", imported_sources(project, file))
    assert sorted(hashes) == ["studies/neighbour_of_test.py", "studies/one_test_study.py"]
    assert (tmp_path / "copy" / "studies" / "one_test_study.py").read_text() == file.read_text()
    assert all(len(value) == 64 for value in hashes.values())


def test_a_file_that_fails_leaves_nothing_half_loaded(project: Path) -> None:
    file = project / "studies" / "broken_test_study.py"
    file.write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        load(file, project)
    assert "studies.broken_test_study" not in sys.modules


def test_a_file_that_would_hide_a_module_of_python_is_refused(project: Path) -> None:
    file = project / "random.py"
    file.write_text("")
    with pytest.raises(Mistake, match=r"the name random.py belongs to a module of Python's own"):
        check(file, project)


@pytest.mark.parametrize("name", ["torch.py", "labkit.py", "datasets.py", "mlflow/__init__.py"])
def test_a_file_that_hides_what_labkit_needs_is_refused(project: Path, name: str) -> None:
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text("")
    with pytest.raises(Mistake, match=rf"{name} hides the module .*give it another name"):
        check(project / "studies" / "one_test_study.py", project)
