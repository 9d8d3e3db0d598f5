"""What the evaluation at the end scores is known before anything is trained, and timing does without it."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from labkit.data import Store
from labkit.study import ending
from labkit.study.ending import Part, parts
from labkit.study.forecast import Forecast, forecast
from labkit.study.pace import Pace
from labkit.study.planned import show_plan
from labkit.tracking.console import Console
from tests.study.test_planned import planned as planned

Planned = Callable[..., Forecast]


def store_of(tokens: int, **also: int) -> Store:
    """One that knows nothing but its sizes."""
    further = {name: SimpleNamespace(split=SimpleNamespace(n_tokens=size)) for name, size in also.items()}
    return SimpleNamespace(val=SimpleNamespace(n_tokens=tokens), also=further, size=258, end=257)  # pyright: ignore[reportReturnType]


def test_whole_sets_are_scored_and_the_spans_once_for_every_length(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = planned().runner.arms[0].arm.spec
    context = spec.model.context
    monkeypatch.setattr(ending, "multiples", lambda *_: [2, 4])
    monkeypatch.setattr(ending, "spans", lambda _split, _end, length, limit: [length] * min(limit, 3))
    windows = spec.patched({"evaluation.windows": 12})
    val, python, beyond = parts(windows, store_of(5_000, python=70_000))
    assert val == Part("the validation split", 5_000, 5_000)
    assert python == Part("evaluation.also.python", 70_000, 70_000)
    assert (beyond.name, beyond.tokens) == ("evaluation.beyond", 3 * 3 * 4 * context)
    assert beyond.work > beyond.tokens


def test_the_end_counts_in_a_runs_length_and_is_told_where_it_is_a_notable_share(
    planned: Planned, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    found = (Part("the validation split", 1_000, 1_000), Part("evaluation.also.python", 12_300_000, 12_300_000))
    pace = Pace(0.5, 1.0, 10.0, "measured", token=1e-5).ending(found)
    plan = planned()
    told = replace(plan, paces=dict.fromkeys(plan.paces, pace), endings=dict.fromkeys(plan.paces, found))
    assert told.seconds(told.arms[0]) == pytest.approx(22 + 123.01)
    show_plan(Console(), told)
    said = "end       85 % of a run is the evaluation at its end: evaluation.also.python (12.30M tokens)\n"
    assert said in capsys.readouterr().out
    show_plan(Console(), replace(told, endings=dict.fromkeys(plan.paces, found[:1])))
    assert "of a run is the evaluation" not in capsys.readouterr().out


def test_what_records_tell_has_the_end_in_it(planned: Planned) -> None:
    pace = Pace(0.5, 0.0, 10.0, "records", token=1e-5)
    assert pace.ending([Part("evaluation.also.python", 10**6, 10**6)]).seconds(20, 2) == 20.0


def test_a_long_text_to_score_is_not_scored_while_timing(
    project: Path, planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABKIT_CACHE", str(project / "cache"))
    (project / "long.txt").write_text("the same again, and again\n" * 200_000)
    long = 'evaluation.also={"long": {"kind": "text", "path": "../long.txt"}}'
    runner = planned(sets=[long, "evaluation.windows=1000000"]).runner
    runner.jobs = runner.jobs[:1]
    begun = time.monotonic()
    plan = forecast(runner, measure=True)
    took = time.monotonic() - begun
    (pace,) = {plan.paces["baseline"]}
    assert plan.endings["baseline"][1].tokens > 5_000_000
    assert pace.end > 5e6 * pace.token > 2 * took
    assert math.isclose(sum(plan.ends(plan.arms[0]).values()), pace.end / plan.seconds(plan.arms[0]))
