"""The live view of a sweep: the time left, from the trials that ended since it was taken up."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labkit.sweep import live as live_module
from labkit.sweep.live import Live
from labkit.tracking.console import Console, Gauges
from labkit.tracking.record import Run


def work(folder: Path, before: float, branch: Any) -> Any:
    """A trial of one run, of which a share was made before."""
    counted = SimpleNamespace(steps=100)
    job = SimpleNamespace(run=Run(folder))
    given = {"before": before, "at": 0, "pruned_at": 50, "asked": None, "pace": None}
    return SimpleNamespace(name="trial-001", job=job, counted=counted, branch=branch, **given)


def test_a_trial_that_was_nearly_over_is_not_taken_for_a_fast_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, states = [100.0], ["done", "done"]
    monkeypatch.setattr(live_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(live_module, "state_of", lambda trial: trial)
    branch = SimpleNamespace(trials=10, known=states, best=None)
    live = Live(Console(), Gauges(Console()), [cast(Any, branch)])
    live.show([])
    assert live.note == "2/10 trials  0 running  -:-- left"
    for before, later in ((0.9, 2.0), (1.0, 2.0), (0.0, 22.0)):
        now[0] = 100 + later
        states.append("done")
        live.end(work(tmp_path, before, branch), "pruned", "")
        live.show([])
    assert live.note == "5/10 trials  0 running  1:40 left"
