"""What a plan says before anything is trained: cost from a few steps or from records, and what the seeds can show."""

import json
import math
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats
from typer.testing import CliRunner, Result

from labkit.cli import app
from labkit.data import Split
from labkit.model import costs
from labkit.report.precedent import Precedent
from labkit.spec import Mistake
from labkit.study import forecast as forecasting
from labkit.study.budget import proposals, seconds_in
from labkit.study.editions import Asked, edition
from labkit.study.forecast import AFTER, BEFORE, Forecast, forecast
from labkit.study.loading import load
from labkit.study.pace import Pace, shape
from labkit.study.planned import show_plan, text_of
from labkit.study.runner import Options, Runner
from labkit.tracking import console
from labkit.tracking.console import Console
from labkit.train.run import RunSpec, Runtime

OVERHEAD = 2.0 * (BEFORE + AFTER)
Ask = Callable[..., Result]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, project: Path) -> Ask:
    monkeypatch.chdir(project)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LABKIT_CACHE", str(project / "cache"))
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def planned(project: Path) -> Callable[..., Forecast]:
    """A forecast of 3 arms × 2 seeds of 20 steps: 2 s at the start of a worker, then 10 + 20 · 0.5 + 2 · 1 s a run."""

    def make(workers: int = 1, seeds: int = 0, sets: Sequence[str] = (), **fields: object) -> Forecast:
        loaded, name = edition(load(project / "experiments" / "theta.py"), Asked(seeds=seeds, sets=sets))
        options = Options(project / "runs", Runtime(device="cpu"), "labkit run experiments/theta.py", workers=workers)
        runner = Runner(loaded, name, options, Console())
        pace = Pace(step=0.5, look=1.0, once=10.0, source="measured")
        paces = {arm.arm.name: pace for arm in runner.arms}
        told = {"paces": paces, "noise": Precedent(0.01, 8, "on record of x"), "start": 2.0, **fields}
        return replace(forecast(runner), **told)

    return make


def test_the_whole_is_what_the_last_worker_takes(planned: Callable[..., Forecast]) -> None:
    plan = planned()
    assert plan.seconds(plan.arms[0]) == 22.0
    assert plan.whole == OVERHEAD + 6 * 22
    assert planned(workers=4).whole == OVERHEAD + 2 * 22
    assert math.isnan(planned(paces={}).whole)
    some = planned(paces={"baseline": Pace(0.5, 1.0, 10.0, "records")})
    assert math.isnan(some.whole)


def test_four_times_the_seeds_show_half_the_difference_and_half_the_tie(planned: Callable[..., Forecast]) -> None:
    few, many = planned().resolution(100), planned().resolution(400)
    assert few.difference / many.difference == pytest.approx(2, rel=0.02)
    assert few.tie / many.tie == pytest.approx(2, rel=0.02)
    assert many.tie == pytest.approx(0.01 * math.sqrt(2 / 400) * (1.645 + 1.2816), rel=0.01)
    assert math.isnan(planned().resolution(1).difference)


def test_what_is_declared_about_looks_costs_resolution(project: Path, planned: Callable[..., Forecast]) -> None:
    once = planned().resolution(8).difference
    file = project / "experiments" / "theta.py"
    file.write_text(file.read_text().replace('match="params"', 'match="params", looks=(4, 8)'))
    loaded = load(file)
    plan = planned()
    plan.runner.loaded = replace(loaded, experiment=replace(loaded.experiment, looks=(4, 8)))
    assert plan.resolution(8).difference > once


@pytest.mark.parametrize(
    ("sigma", "told"),
    [
        (0.0001, "can be shown with 2 seeds: equal arms are shown equal within ±0.0004, and a tie asks for ±0.0050, "),
        (0.01, "cannot be shown with 2 seeds: equal arms are shown equal within ±0.0420, but a tie asks for ±0.0050, "),
    ],
)
def test_a_plan_says_whether_a_tie_can_be_shown(
    planned: Callable[..., Forecast],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    sigma: float,
    told: str,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    show_plan(Console(), planned(noise=Precedent(sigma, 8, "on record of x")))
    said = capsys.readouterr().out
    assert f"tie       {told}the margin M" in said
    assert ("; 70 seeds would do\n" in said) == told.startswith("cannot")


@pytest.mark.parametrize(("text", "seconds"), [("2h", 7200), ("90m", 5400), ("1h30m", 5400), ("1.5 min 10s", 100)])
def test_a_budget_is_a_span_of_time(text: str, seconds: float) -> None:
    assert seconds_in(text) == seconds


@pytest.mark.parametrize("text", ["2", "h", "2 weeks", "-2h", "0s"])
def test_what_is_no_span_of_time_is_one_message(text: str) -> None:
    with pytest.raises(Mistake, match=r"--budget .*: write a span of time, such as 2h, 90m or 1h30m"):
        seconds_in(text)


def test_the_steps_as_written_are_proposed_with_the_seeds_that_fit(planned: Callable[..., Forecast]) -> None:
    ways = proposals(planned(), OVERHEAD + 3 * 22 * 8)
    (best,) = [way for way in ways if way.chosen]
    assert (best.seeds, best.steps, best.seconds) == (8, 20, OVERHEAD + 3 * 22 * 8)
    assert all(way.seconds <= OVERHEAD + 3 * 22 * 8 for way in ways)


def test_fewer_steps_are_proposed_where_four_seeds_do_not_fit(planned: Callable[..., Forecast]) -> None:
    ways = proposals(planned(sets=["budget.steps=400"]), OVERHEAD + 12 * (12 + 50))
    (best,) = [way for way in ways if way.chosen]
    assert (best.seeds, best.steps) == (4, 100)
    assert [way.seeds for way in ways] == [2, 3, 4, 5, 6, 8, 10]


def test_what_buys_nothing_is_one_message(planned: Callable[..., Forecast]) -> None:
    with pytest.raises(Mistake, match="two seeds of 20 steps take"):
        proposals(planned(), 10)
    with pytest.raises(Mistake, match="labkit plan` measures it"):
        proposals(planned(paces={}), 10)


def shape_of(spec: RunSpec) -> str:
    found = costs(spec.model, 258)
    return shape(spec.as_json(), found.params, found.flops_per_token)


def test_the_shape_of_a_run_leaves_out_what_takes_no_time(planned: Callable[..., Forecast]) -> None:
    base, theta, _ = (arm.arm.spec for arm in planned().runner.arms)
    assert shape_of(base) == shape_of(theta) == shape_of(theta.patched({"seed": 3}))
    changes = ({"model.d_model": 32}, {"batch_size": 8}, {"model.norm": "layer"}, {"evaluation.points": 3})
    for change in (*changes, {"model.feedforward.multiplier": 8.0}):
        assert shape_of(base.patched(change)) != shape_of(base)


def test_a_plan_times_a_few_steps_and_leaves_nothing_behind(project: Path, ask: Ask) -> None:
    told = ask("plan", "experiments/theta.py", "--workers", "1", "--budget", "10m")
    assert told.exit_code == 0, told.output
    assert not (project / "runs").exists()
    assert re.search(r"^ theta=1000 .* 20 +[\d.k]+ +[\d.]+ s +2 new", told.stdout, re.MULTILINE)
    text = " ".join(told.stdout.split())
    for words in (
        "speed timed on a few steps here",
        "tokens to train on, gone through",
        "text the interval over documents (text±) will be weak: the 4 documents of the validation split are worth 4",
        "to train 6 runs",
        "noise σ over seeds 0.0100, so 0.0141 (√2 σ) for a paired difference; assumed: no experiment with two seeds is",
        "shows with 2 seeds a difference of",
        "proposed",
        "labkit run experiments/theta.py --seeds",
    ):
        assert words in text
    assert re.search(
        r"^disk +\d.* for 6 runs, and .* of checkpoints while they train; .* free$", told.stdout, re.MULTILINE
    )
    again = ask("plan", "experiments/theta.py", "--workers", "1", "--json")
    assert {arm["pace"] for arm in json.loads(again.stdout)["plan"]["arms"].values()} == {"remembered"}


@pytest.mark.parametrize(
    ("lengths", "told"),
    [
        (
            [500],
            "no interval over documents (text±) will be possible: the validation split is a single document; bring",
        ),
        ([900, 100, 100, 100, 100], "will be weak: the 5 documents of the validation split are worth 1.99 equal ones;"),
        ([100] * 19, "will be weak: the 19 documents of the validation split are worth 19 equal ones;"),
        ([100] * 20, ""),
    ],
)
def test_a_plan_says_where_the_text_is_too_little_for_an_interval_over_it(lengths: list[int], told: str) -> None:
    ids = np.ones(sum(lengths), np.uint8)
    ids[np.cumsum(lengths) - 1] = 0
    said = text_of(Split("validation", [ids[:450], ids[450:]], len(ids), len(ids), len(lengths)), 0)
    assert told in said
    assert bool(said) == bool(told)


def test_a_variant_that_diverges_at_once_is_named_and_the_others_are_planned(
    project: Path, write: Callable[..., Path], ask: Ask
) -> None:
    imports = "from typing import Literal\nfrom labkit import Experiment, Norm, Place\nfrom torch import nn\n"
    part = "class Void(nn.Module):\n    def forward(self, x): return x * float('nan')\n"
    norm = "class Nan(Norm):\n    kind: Literal['nan'] = 'nan'\n"
    norm += "    def build(self, width: int, place: Place) -> nn.Module: return Void()\n"
    call = "baseline=pico, variants={'void': {'model.norm': 'nan'}}, seeds=2, metric='val/loss', match='none'"
    base = "from experiments.baselines import pico\n"
    write(f"{imports}{base}{part}{norm}experiment = Experiment({call})")
    told = ask("plan", "experiments/mine.py", "--workers", "1", "--budget", "10m")
    assert told.exit_code == 0, told.output
    assert re.search(r"^ baseline .* 20 +[\d.k]+ +[\d.]+ s +2 new", told.stdout, re.MULTILINE)
    assert re.search(r"^ void .* 20 +- +- +2 new", told.stdout, re.MULTILINE)
    text = " ".join(told.stdout.split())
    assert "speed timed on a few steps here (baseline); unknown of void, which diverged within a few steps" in text
    assert re.search(r"to train 4 runs, .* here with 1 worker, those of void left out", text)
    assert "proposed" in text
    assert "timing a few steps of 2 shapes" in told.stderr


def test_which_shape_is_being_timed_is_shown(
    planned: Callable[..., Forecast], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def timed(slots: object, jobs: Sequence[object], planner: object, told: Callable[[int], None]) -> list[Pace]:
        for at in range(len(jobs)):
            told(at)
        return [Pace(0.5, 1.0, 10.0, "measured", 2.0)] * len(jobs)

    monkeypatch.setattr(forecasting, "measured", timed)
    monkeypatch.setattr(forecasting, "keep", lambda *_: None)
    monkeypatch.setattr(console, "PLAIN_EVERY", 0.0)
    runner = planned(sets=["evaluation.points=1"]).runner
    capsys.readouterr()
    forecast(runner, measure=True, again=True)
    assert "timing a few steps  baseline, 1 of 1 shape\n" in capsys.readouterr().err


def test_what_is_remembered_is_said_with_its_day_and_how_to_time_it_anew(
    planned: Callable[..., Forecast], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    pace = Pace(0.5, 1.0, 10.0, "remembered", 2.0, at=1_796_000_000.0)
    plan = planned()
    show_plan(Console(), replace(plan, paces=dict.fromkeys(plan.paces, pace)))
    said = (
        "remembered from a few steps here on 2026-11-30; `labkit plan experiments/theta.py --measure` times them anew"
    )
    assert f"speed     {said}\n" in capsys.readouterr().out


def record(runner: Runner) -> None:
    """Have every run on record, as if it had been trained here in 3 s, of which 2 s were its steps."""
    runner.prepare()
    runner.planner.describe(runner.arms, "labkit run experiments/theta.py")
    for job in runner.jobs:
        runner.planner.plan(job, runner.store(job))
        loss = 2.0 + 0.1 * job.seed + 0.01 * len(job.counted.arm.name) * job.seed
        facts = {"device": "cpu", "host": socket.gethostname(), "runtime": Runtime(device="cpu").as_json()}
        times = {"started": 1000.0, "ended": 1003.0, "seconds": 2.0, "sessions": [{}]}
        job.run.update(status="done", step=20, final={"val/loss": loss}, **facts, **times)


def test_records_tell_the_pace_and_the_noise(planned: Callable[..., Forecast]) -> None:
    record(planned().runner)
    known = forecast(planned(seeds=4).runner)
    pace = known.paces["theta=1000"]
    assert (pace.source, pace.step, pace.once) == ("records", 0.1, 1.0)
    assert known.seconds(known.arms[0]) == 3.0
    assert len(known.ahead) == 6
    assert (known.noise.dof, known.noise.source) == (2, "on record of theta")
    assert known.noise.sigma == pytest.approx(0.01 * math.sqrt(2))


def test_other_conditions_have_no_precedent_and_another_shape_no_pace(planned: Callable[..., Forecast]) -> None:
    record(planned().runner)
    other = forecast(planned(sets=["batch_size=8"]).runner)
    assert not other.paces
    assert math.isnan(other.whole)
    assert other.noise.dof == 0
    assert "the nearest, theta (7488 parameters), differs in batch" in other.noise.source
    assert json.loads(json.dumps(other.as_json()))["seconds"] is None


def test_arms_that_neither_were_nor_will_be_run_do_not_count_in_what_the_seeds_can_show(
    planned: Callable[..., Forecast],
) -> None:
    whole, plan = planned().resolution(8), planned()
    plan.runner.jobs = [job for job in plan.runner.jobs if job.counted.arm.name != "theta=1000"]
    error = 0.01 * math.sqrt(2 / 8)
    few = plan.resolution(8)
    assert few.difference / error == pytest.approx(_shown(dof=7), rel=1e-4)
    assert few.difference < whole.difference
    record(planned().runner)
    assert replace(plan).resolution(8) == whole


def _shown(dof: int) -> float:
    """In standard errors, what one difference has to be to be shown in 80 % of experiments."""
    bound = stats.t.ppf(0.975, dof)
    return float(optimize.brentq(lambda x: stats.nct.sf(bound, dof, x) + stats.nct.cdf(-bound, dof, x) - 0.8, 1, 5))
