"""Whole sweeps, by a worker whose runs are over at once."""

import os
import re
import signal
from pathlib import Path

import pytest

from labkit.search.study import state_of
from labkit.spec import Mistake
from labkit.study.executors import Answer
from labkit.sweep import pool
from labkit.sweep.analysis import narrow, saved
from labkit.sweep.results import search_as_json, tally
from labkit.sweep.trials import Trials
from labkit.tracking.record import Edition, Run
from tests.sweep.conftest import SEARCH, Synthetic, Write, loss_of, made, records

pytestmark = pytest.mark.usefixtures("synthetic", "no_page")


def test_every_trial_is_a_run_with_a_record_and_the_study_has_its_value(project: Path, write_sweep: Write) -> None:
    outcome, searched = made(write_sweep(SEARCH)).run()
    assert not outcome.failed
    [branch] = searched.branches
    assert [state_of(trial) for trial in branch.known] == ["done"] * 8
    found = records(project / "runs")
    assert sorted(found) == ["baseline", *(f"trial-{number:03d}" for number in range(8))]
    for trial in branch.known:
        record = found[branch.folder(trial.number)]
        folder = Run(Path(trial.user_attrs["run"]["folder"]))
        assert trial.values == [loss_of(folder.spec())] == [record["final"]["val/loss"]]
        assert record["varied"] == trial.params
        assert record["tags"]["trial"] == str(trial.number)
        assert record["tags"]["study"] == branch.study.search.name
    assert found["baseline"]["varied"] == {"model.norm": "rms", "optimizer.lr": 5e-3}
    best = branch.best
    assert best is not None
    assert best.values[0] == min(trial.values[0] for trial in branch.known)
    description = Edition(project / "runs" / "sweeps.mine" / "main").description()
    assert [arm["name"] for arm in description["arms"]] == ["baseline", *(f"trial-{n:03d}" for n in range(8))]
    assert description["kind"] == "sweep"


def test_a_finished_sweep_trains_nothing_and_a_longer_one_only_what_is_missing(
    write_sweep: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_sweep(SEARCH)
    made(file).run()
    assert len(Synthetic.made) == 9
    made(file).run()
    assert len(Synthetic.made) == 9
    assert "all 8 trials are finished already" in capsys.readouterr().err
    _, searched = made(file, trials=10).run()
    assert len(Synthetic.made) == 11
    assert len(searched.branches[0].known) == 10


def test_a_base_that_scores_a_further_text_is_trained_once(write_sweep: Write, project: Path) -> None:
    (project / "more").mkdir()
    (project / "more" / "0.txt").write_text("something else " * 200)
    also = '{"kind": "text", "path": "../more"}'
    base = f'pico.patched({{"evaluation.also": {{"more": {also}}}}})'
    file = write_sweep(SEARCH.replace("base=pico", f"base={base}"))
    made(file).run()
    made(file, trials=10).run()
    assert len(Synthetic.made) == 11


def test_what_was_run_before_in_any_sweep_answers(
    project: Path, write_sweep: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    made(write_sweep(SEARCH)).run()
    capsys.readouterr()
    _, searched = made(write_sweep(SEARCH, "again.py")).run()
    assert len(Synthetic.made) == 9
    told = capsys.readouterr().err
    assert told.count(", from ") == 9
    assert [trial.user_attrs["run"]["answered_from"] != "" for trial in searched.branches[0].known] == [True] * 8
    assert len(Edition(project / "runs" / "sweeps.again" / "main").runs()) == 9


def test_other_data_is_another_run_and_another_study(project: Path, write_sweep: Write) -> None:
    file = write_sweep(SEARCH)
    made(file).run()
    (project / "text" / "0.txt").write_text("something else " * 200)
    with pytest.raises(Mistake, match=r"is about something else \(data differs\)"):
        made(file).run()


def test_invalid_combinations_cost_nothing_and_are_counted(write_sweep: Write) -> None:
    code = """
sweep = Sweep(base=pico, scientific={"model.d_model": [16, 24], "model.attention.n_heads": [2, 3]},
              minimize="val/loss", constraints={"small": lambda spec: spec.model.d_model < 20})
"""
    _, searched = made(write_sweep(code)).run()
    [branch] = searched.branches
    states = [
        (trial.params["model.d_model"], trial.params["model.attention.n_heads"], state_of(trial))
        for trial in branch.known
    ]
    assert sorted(states) == [(16, 2, "done"), (16, 3, "invalid"), (24, 2, "invalid"), (24, 3, "invalid")]
    assert len(Synthetic.made) <= 2
    why = {trial.user_attrs.get("why", "") for trial in branch.known}
    assert "the constraint 'small' does not hold" in why
    assert any("n_heads 3 does not divide d_model 16" in one for one in why)
    told = "1 trial: 1 done; 3 combinations invalid, at no cost (the constraint 'small' does not hold)"
    assert tally(searched.branches) == told


def test_a_constraint_that_raises_excludes_what_it_raises_for(write_sweep: Write) -> None:
    code = """
sweep = Sweep(base=pico, scientific={"clip": [0.5, 1.0]}, minimize="val/loss",
              constraints={"quick": lambda spec: 1 / (spec.clip - 0.5) > 0})
"""
    outcome, searched = made(write_sweep(code)).run()
    assert not outcome.failed
    told = {state_of(trial): trial.user_attrs.get("why", "") for trial in searched.branches[0].known}
    assert told == {"done": "", "invalid": "the constraint 'quick' raised ZeroDivisionError: float division by zero"}


def test_a_divergence_is_a_failed_value_and_the_sweep_goes_on(write_sweep: Write) -> None:
    code = SEARCH.replace("log_uniform(1e-3, 1e-1)", "choice([1e-2, 0.3])").replace("trials=8", "sampler='brute_force'")
    outcome, searched = made(write_sweep(code)).run()
    assert not outcome.failed
    states = {(trial.params["optimizer.lr"], state_of(trial), trial.state.name) for trial in searched.branches[0].known}
    assert states == {(1e-2, "done", "COMPLETE"), (0.3, "diverged", "FAIL")}
    made_before = len(Synthetic.made)
    _, again = made(write_sweep(code, "again.py")).run()
    assert {(t.params["optimizer.lr"], state_of(t), t.state.name) for t in again.branches[0].known} == states
    assert len(Synthetic.made) == made_before


def test_what_is_hopeless_is_pruned_at_equal_parts_and_the_same_when_it_is_seen_late(
    project: Path, write_sweep: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    code = SEARCH.replace("trials=8", 'trials=12, pruner={"kind": "median", "startup": 2}')
    _, searched = made(write_sweep(code)).run()
    [branch] = searched.branches
    states = [state_of(trial) for trial in branch.known]
    assert set(states) == {"done", "pruned"}
    worst = max(trial.values[0] for trial in branch.ranked[:2])
    assert all(
        loss_of(Run(Path(t.user_attrs["run"]["folder"])).spec()) > worst
        for t in branch.known
        if state_of(t) == "pruned"
    )
    assert saved(searched.branches).planned > 0
    assert all(0 <= one.ahead <= 0.5 and one.point >= 1 for one in narrow(branch))
    said = re.findall(r"pruned at step (\d+) of (\d+)(, when it had got to \d+)?", " ".join(capsys.readouterr()))
    assert len(said) == states.count("pruned")
    assert all(0 < int(at) <= int(steps) and bool(late) == (at != steps) for at, steps, late in said), said


def test_interrupted_and_uninterrupted_ask_the_same(
    write_sweep: Write, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    code = SEARCH.replace("trials=8", "trials=5")
    _, whole = made(write_sweep(code)).run()
    wanted = [(trial.number, trial.params, trial.values) for trial in whole.branches[0].known]
    file = write_sweep(code, "parts.py")
    train, count = Synthetic.train, 0

    class Interrupted(Synthetic):
        def train(self, run: Run) -> Answer:
            nonlocal count
            count += 1
            if count % 3 == 0:
                os.kill(os.getpid(), signal.SIGINT)
                return Answer("paused")
            return train(self, run)

    monkeypatch.setattr(pool, "Worker", Interrupted)
    (project / "runs" / "sweeps.mine").rename(project / "kept")
    for _ in range(20):
        outcome, parts = made(file).run()
        waiting = [trial for trial in parts.branches[0].known if not trial.state.is_finished()]
        assert all(state_of(trial) == "waiting" for trial in waiting)
        if not outcome.interrupted:
            break
    assert count > 6
    assert [(trial.number, trial.params, trial.values) for trial in parts.branches[0].known] == wanted


def test_an_interrupt_while_a_trials_component_is_tried_gives_the_trial_back(
    write_sweep: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass

    file = write_sweep(SEARCH)
    with monkeypatch.context() as patched:
        patched.setattr(Trials, "counted", endless)
        outcome, searched = made(file).run()
    assert outcome.interrupted
    assert [state_of(trial) for trial in searched.branches[0].known] == ["waiting"]
    outcome, searched = made(file).run()
    assert (outcome.interrupted, [state_of(trial) for trial in searched.branches[0].known]) == (False, ["done"] * 8)


def test_a_worker_that_dies_gives_its_trial_back_and_one_that_always_dies_fails(
    write_sweep: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths: list[Path] = []

    class Dying(Synthetic):
        def train(self, run: Run) -> Answer:
            if deaths.count(run.path) < (
                1 if "trial-001" in str(run.path) else 9 if "trial-003" in str(run.path) else 0
            ):
                deaths.append(run.path)
                return Answer("failed", "the worker was killed by SIGKILL", died=True)
            return super().train(run)

    monkeypatch.setattr(pool, "Worker", Dying)
    outcome, searched = made(write_sweep(SEARCH)).run()
    states = [state_of(trial) for trial in searched.branches[0].known]
    assert states == ["done", "done", "done", "failed", *["done"] * 5]
    assert len(deaths) == 1 + 3
    assert outcome.failed == ["trial-003: the worker was killed by SIGKILL"]


def test_what_always_fails_ends_the_sweep(write_sweep: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Synthetic):
        def train(self, run: Run) -> Answer:
            with run.lock():
                run.update(status="failed", error="ZeroDivisionError")
            return Answer("failed", "ZeroDivisionError")

    monkeypatch.setattr(pool, "Worker", Failing)
    outcome, searched = made(write_sweep(SEARCH)).run()
    assert len(outcome.failed) == 3
    assert [state_of(trial) for trial in searched.branches[0].known] == ["failed", "failed"]


def test_a_trial_that_found_no_room_on_the_disk_waits_for_the_same_command(
    write_sweep: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = True

    class Full(Synthetic):
        def train(self, run: Run) -> Answer:
            if full and "trial-002" in str(run.path):
                with run.lock():
                    run.update(status="failed", error="OSError: [Errno 28] No space left on device")
                return Answer("failed", "OSError: [Errno 28] No space left on device")
            return super().train(run)

    monkeypatch.setattr(pool, "Worker", Full)
    file = write_sweep(SEARCH)
    outcome, searched = made(file).run()
    assert [state_of(trial) for trial in searched.branches[0].known] == ["done", "done", "waiting"]
    assert len(outcome.failed) == 1
    assert "trial-002: OSError: [Errno 28] No space left on device; it waits: free some space" in outcome.failed[0]
    full = False
    outcome, searched = made(file).run()
    assert not outcome.failed
    assert [state_of(trial) for trial in searched.branches[0].known] == ["done"] * 8


def test_several_objectives_make_a_front(write_sweep: Write) -> None:
    code = SEARCH.replace('minimize="val/loss"', 'minimize="val/loss", maximize="perf/tokens_per_s"')
    _, searched = made(write_sweep(code)).run()
    told = search_as_json(searched, Path("page"))
    [branch] = told["branches"]
    by_number = {trial["number"]: trial["values"] for trial in branch["trials"]}
    assert all(len(values) == 2 for values in by_number.values())
    for number, (loss, speed) in by_number.items():
        beaten = any(l <= loss and s >= speed and (l, s) != (loss, speed) for l, s in by_number.values())  # noqa: E741
        assert (number in branch["front"]) is not beaten


def test_what_is_judged_by_its_speed_trains_alone(write_sweep: Write) -> None:
    code = SEARCH.replace('minimize="val/loss"', 'minimize="val/loss", maximize="perf/tokens_per_s"')
    assert {slot.runtime.side_by_side for slot in made(write_sweep(code)).slots} == {1}
    assert {slot.runtime.side_by_side for slot in made(write_sweep(SEARCH, "other.py")).slots} == {"auto"}
    with pytest.raises(Mistake, match=r"--side-by-side 2: trials are judged by perf/tokens_per_s, .*; leave it out"):
        made(write_sweep(code), side_by_side=2)


def test_only_a_run_that_trained_alone_answers_where_speed_is_judged(write_sweep: Write) -> None:
    made(write_sweep(SEARCH)).run()
    for path in Synthetic.made:
        Run(path).update(side_by_side=2)
    made(write_sweep(SEARCH, "again.py")).run()
    assert len(Synthetic.made) == 9
    made(write_sweep(SEARCH.replace("minimize=", "maximize='perf/tokens_per_s', minimize="), "fast.py")).run()
    assert len(Synthetic.made) > 9


def test_a_trial_of_several_seeds_counts_by_their_mean_and_wilcoxon_needs_fewer(write_sweep: Write) -> None:
    code = SEARCH.replace("trials=8", "trials=6, seeds=6, pruner='wilcoxon'")
    _, searched = made(write_sweep(code)).run()
    runs = [len(list(Path(t.user_attrs["run"]["folder"]).parent.glob("seed*"))) for t in searched.branches[0].known]
    assert max(runs) == 6
    assert min(runs) < 6
    assert all(state_of(trial) == "done" for trial in searched.branches[0].known)


def test_matched_trials_have_the_size_of_the_base(project: Path, write_sweep: Write) -> None:
    feedforward = '{"model.feedforward": ["gelu", {"kind": "swiglu", "d_ff": 200}]}'
    code = f"sweep = Sweep(base=pico, scientific={feedforward}, minimize='val/loss', match='params', tolerance=0.05)"
    _, searched = made(write_sweep(code)).run()
    states = {trial.params["model.feedforward"]: trial for trial in searched.branches[0].known}
    assert {kind: state_of(trial) for kind, trial in states.items()} == {"gelu": "done", "swiglu": "invalid"}
    assert "match='params' does not hold" in states["swiglu"].user_attrs["why"]
    sizes = {record["params"] for record in records(project / "runs").values()}
    assert all(abs(size / 7488 - 1) < 0.05 for size in sizes)
