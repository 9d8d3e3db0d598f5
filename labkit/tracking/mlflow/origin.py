"""Who runs an experiment and from which source, in the tags that MLflow's own clients set."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from labkit.tracking.mlflow.store import public


def origin(source: str, folder: Path, files: Sequence[str] = ()) -> dict[str, str]:
    """User and source, and git tags where the project's folder lies in a repository; `files` are the sources in it."""
    from mlflow.tracking.context.git_context import GitRunContext
    from mlflow.tracking.context.registry import resolve_tags

    tags = resolve_tags({"mlflow.source.name": source, "mlflow.source.type": "LOCAL"}, ignore=[GitRunContext])  # pyright: ignore[reportArgumentType]
    return {**tags, **_git(folder, files)}


def _git(folder: Path, files: Sequence[str]) -> dict[str, str]:
    """The commit, the branch, and whether files differ from the commit or sources are not in it."""
    lines = _output(folder, "status", "--porcelain=v2", "--branch", "--untracked-files=no").splitlines()
    head = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    if head.get("branch.oid", "(initial)") == "(initial)":
        return {}
    tracked = not files or _output(folder, "ls-files", "--error-unmatch", "--", *files)
    changed = any(not line.startswith("#") for line in lines) or not tracked
    url = _output(folder, "config", "--get", "remote.origin.url").strip()
    tags = {
        "mlflow.source.git.commit": head["branch.oid"],
        "mlflow.source.git.branch": head["branch.head"],
        "mlflow.source.git.dirty": str(changed).lower(),
        "mlflow.source.git.repoURL": public(url) if urlsplit(url).scheme else url,
    }
    return {key: value for key, value in tags.items() if value}


def _output(folder: Path, *words: str) -> str:
    try:
        command = ["git", "--no-optional-locks", "-C", str(folder), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
