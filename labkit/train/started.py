"""Worker processes: each runs the very labkit that starts it, whatever other one is installed or lies elsewhere."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from labkit.tracking.source import INSTALLED, LABKIT
from labkit.train.run import Runtime


def worker(
    runtime: Runtime, *arguments: str, errors: int | IO[Any], environment: Mapping[str, str] | None = None, **how: Any
) -> subprocess.Popen[str]:
    """Start one that is told and tells lines by its pipes; what it says besides goes to `errors`.

    `environment` comes on top of this process's own, and `how` is Popen's.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "labkit.worker", "--runtime", json.dumps(runtime.as_json()), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, **pointing_to(LABKIT.parent), **(environment or {})},
        encoding="utf-8",
        errors="replace",
        **how,
    )


def pointing_to(home: Path) -> dict[str, str]:
    """The variable that has another Python import labkit from a folder; none where it would anyway, which it looks
    through after its own library.
    """
    if home.name in INSTALLED:
        return {}
    others = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(home), others] if others else [str(home)])}
