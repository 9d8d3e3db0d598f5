"""The user's own source: found, copied, and loaded again from the copy."""

import sys
from pathlib import Path

import pytest

import labkit.tracking.source
from labkit.spec import Mistake
from labkit.tracking.source import capture, imported_sources, load


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
    names = [path.name for path in imported_sources(project, file)]
    assert names == ["neighbour_of_test.py", "one_test_study.py"]


def test_what_labkit_imports_of_itself_is_no_source_of_the_user(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, root = project / "studies" / "one_test_study.py", Path(labkit.__file__).parents[1]
    monkeypatch.setitem(sys.modules, "__mp_main__", labkit.tracking.source)
    assert not [path for path in imported_sources(root, file) if path.is_relative_to(root / "labkit")]


def test_a_copy_has_the_same_places_and_known_hashes(project: Path, tmp_path: Path) -> None:
    file = project / "studies" / "one_test_study.py"
    load(file, project)
    hashes = capture(tmp_path / "copy", project, imported_sources(project, file))
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
        load(file, project)


@pytest.mark.parametrize("name", ["torch.py", "labkit.py", "datasets.py", "mlflow/__init__.py"])
def test_a_file_that_hides_what_labkit_needs_is_refused(project: Path, name: str) -> None:
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text("")
    with pytest.raises(Mistake, match=rf"{name} hides the module .*give it another name"):
        load(project / "studies" / "one_test_study.py", project)
