"""Who ran it, from which source."""

import subprocess
from pathlib import Path

from labkit.tracking.mlflow.origin import origin

AS = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", folder, *AS, *words], check=True, capture_output=True, text=True).stdout.strip()


def test_a_repository_tells_its_commit_its_branch_and_whether_files_differ(tmp_path: Path) -> None:
    git(tmp_path, "init", "--initial-branch=trunk")
    (tmp_path / "rope.py").write_text("theta = 1e4\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message=theta")
    git(tmp_path, "remote", "add", "origin", "https://me:secret@example.org/rope.git")
    runs = tmp_path / "runs"
    runs.mkdir()
    clean = origin("rope.py", runs)
    assert clean["mlflow.source.name"] == "rope.py"
    assert clean["mlflow.source.git.commit"] == git(tmp_path, "rev-parse", "HEAD")
    assert clean["mlflow.source.git.branch"] == "trunk"
    assert clean["mlflow.source.git.dirty"] == "false"
    assert clean["mlflow.source.git.repoURL"] == "https://example.org/rope.git"
    (tmp_path / "rope.py").write_text("theta = 1e5\n")
    assert origin("rope.py", runs)["mlflow.source.git.dirty"] == "true"


def test_outside_a_repository_there_is_a_user_and_a_source(tmp_path: Path) -> None:
    tags = origin("rope.py", tmp_path)
    assert {"mlflow.user", "mlflow.source.name", "mlflow.source.type"} <= tags.keys()
    assert not any(".git." in tag for tag in tags)


def test_a_source_that_no_commit_holds_makes_the_tree_dirty(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / "experiments").mkdir()
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message=empty")
    for name in ("rope.py", "ignored.py"):
        source = f"experiments/{name}"
        (tmp_path / source).write_text("theta = 1e4\n")
        assert origin(source, tmp_path)["mlflow.source.git.dirty"] == "false"
        assert origin(source, tmp_path, [source])["mlflow.source.git.dirty"] == "true"
    git(tmp_path, "add", ".")
    assert origin("x", tmp_path, ["experiments/rope.py"])["mlflow.source.git.dirty"] == "true"
    git(tmp_path, "commit", "--message=theta")
    assert origin("x", tmp_path, ["experiments/rope.py"])["mlflow.source.git.dirty"] == "false"
