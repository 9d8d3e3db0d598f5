"""The command, on a project of a user's own."""

import json
import re
import sys
from pathlib import Path

import pytest

from labkit.study import crew
from labkit.study import runner as study_runner
from tests.sweep.conftest import SEARCH, NoMirror, Synthetic, Write, labkit

COMPARE = """
sweep = Sweep(base=pico, scientific={"model.norm": ["rms", "layer"]},
              nuisance={"optimizer.lr": log_uniform(1e-3, 8e-2)},
              trials=3, minimize="val/loss", mode="compare", seeds=2)
"""


@pytest.fixture(autouse=True)
def _instant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "Worker", Synthetic)
    monkeypatch.setattr(study_runner.mlflow, "Mirror", NoMirror)
    monkeypatch.setattr(study_runner.mlflow, "pending", lambda *_: False)
    monkeypatch.setenv("COLUMNS", "160")


@pytest.mark.usefixtures("synthetic", "no_page")
def test_a_search_shows_its_best_and_writes_them_as_an_experiment_that_runs(
    write_sweep: Write, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, best = write_sweep(SEARCH), project / "experiments" / "best.py"
    code, out, err = labkit(capsys, "sweep", file, "-j", 1, "--best", best)
    assert code == 0, err
    assert "the best trials" in out
    assert "8 trials: 8 done" in out
    assert "3 more in the report, none as good" in out
    assert re.search(r"the best trial, -0\.\d+ to the base's 2\.\d+: better, is written to .*; run it:", err)
    assert "next    optuna-dashboard " in err
    code, out, err = labkit(capsys, "run", best, "--json", "--only", "best", "--dry-run")
    assert code == 0, err
    changes = json.loads(out)["runs"][1]["changes"]
    assert "optimizer.lr" in changes
    assert labkit(capsys, "sweep", file, "--best", best)[0] == 2
    code, _, err = labkit(capsys, "report", "sweeps.mine", "--runs", project / "runs")
    assert (code, "is a sweep; write  labkit sweep" in err) == (2, True)
    code, out, _ = labkit(capsys, "sweep", file, "--json")
    told = json.loads(out)
    assert (code, told["version"], len(told["branches"][0]["trials"])) == (0, 1, 8)


@pytest.mark.usefixtures("synthetic", "no_page")
def test_the_end_says_how_the_best_stands_to_the_base_and_what_was_never_tried(
    write_sweep: Write, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = """
sweep = Sweep(base=pico, scientific={"optimizer.lr": [0.1, 0.15, 0.2], "clip": [0.5, 1.0]}, trials=TRIALS,
              minimize="val/loss", constraints={"tight": lambda spec: (spec.optimizer.lr, spec.clip) != (0.2, 0.5)})
"""
    best = project / "experiments" / "best.py"
    _, out, err = labkit(capsys, "sweep", write_sweep(code.replace("TRIALS", "1"), "a.py"), "-j", 1, "--best", best)
    worse = r"\+\d\.\d+ to the base's 2\.0\d+: worse"
    assert re.search(rf"trial \d: val/loss [23]\.\d+, {worse}", out)
    assert re.search(
        rf"nothing beat the base; the best trial \({worse}\) is written to .*best\.py, to confirm that", err
    )
    assert "Nothing in the sweep beat its base: is that so on other seeds?" in best.read_text()
    assert "1 finished trial says nothing yet of what matters: from 20 on, 10 a choice" in out
    assert re.match(
        rf'"""The best of sweeps/a\.py: trial \d of 1, val/loss [23]\.\d+, {worse}\.$', best.read_text(), re.M
    )
    assert "4 of 6 scientific combinations never tried; more --trials go on from here" in out
    out = labkit(capsys, "sweep", write_sweep(code.replace("trials=TRIALS,", "sampler='brute_force',"), "b.py"))[1]
    assert "never tried" not in out
    out = labkit(capsys, "sweep", write_sweep(SEARCH.replace("1e-3, 1e-1", "9e-3, 1.1e-2")), "-j", 1)[1]
    assert ": better" in out


@pytest.mark.usefixtures("synthetic", "no_page")
def test_the_best_reads_as_if_a_user_had_written_it(
    write_sweep: Write, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = """
sweep = Sweep(base=pico, scientific={
    "model.feedforward": [{"kind": "gelu", "d_ff": 40}], "model.norm": ["layer"],
    "model.position": [{"kind": "rope", "theta": 123456.0}], "optimizer.lr": [0.0123456789],
}, minimize="val/loss")
"""
    best = project / "experiments" / "best.py"
    code, _, err = labkit(capsys, "sweep", write_sweep(code), "-j", 1, "--set", "clip=0.5", "--best", best)
    assert code == 0, err
    assert best.read_text().partition("\nfrom")[2].splitlines()[1:] == [
        "from sweeps.mine import sweep",
        "",
        "experiment = Experiment(",
        '    baseline=sweep.base.patched({"clip": 0.5}),',
        "    variants={",
        '        "best": {',
        '            "model.norm": "layer",',
        '            "model.feedforward": {"kind": "gelu", "d_ff": 40},',
        '            "model.position.theta": 123456.0,',
        '            "optimizer.lr": 0.0123456789,',
        "        },",
        "    },",
        "    seeds=[1, 2, 3],",
        '    metric="val/loss",',
        '    match="none",',
        ")",
    ]
    assert labkit(capsys, "plan", best, "--workers", 1)[0] == 0


@pytest.mark.usefixtures("synthetic", "no_page")
def test_where_the_best_cannot_be_written_or_run_is_told_before_anything_starts(
    write_sweep: Write, project: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    file, elsewhere = write_sweep(SEARCH), tmp_path_factory.mktemp("elsewhere")
    (project / "a.py").mkdir()
    for best, told in [
        ("", "this is no name of a .py file; write something like "),
        (project / "best.txt", "this is no name of a .py file"),
        (project / "a.py", "it is there already"),
        (file, "it is there already; write another name"),
        (elsewhere / "best.py", "it would not run there, for it imports the sweep from"),
        (file / "best.py", "is no folder"),
        ("/proc/best.py", "it would not run there"),
    ]:
        for more in ([], ["--dry-run"]):
            code, _, err = labkit(capsys, "sweep", file, "-j", 1, "--best", best, *more)
            assert (code, f"--best {best or '.'}: " in err, told in err) == (2, True, True), err
    assert not (project / "runs").exists()
    assert labkit(capsys, "sweep", write_sweep(COMPARE, "c.py"), "--dry-run", "--best", project / "b.py")[0] == 2


@pytest.mark.usefixtures("synthetic", "no_page")
def test_a_comparison_ends_with_a_verdict_on_other_seeds(
    write_sweep: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = labkit(capsys, "sweep", write_sweep(COMPARE), "-j", 1)
    assert code == 0, err
    assert "each arm at its best" in out
    assert "edge: what is best at an end of its range" in out
    assert "95 % simultaneous" in out


@pytest.mark.usefixtures("synthetic", "no_page")
def test_a_dry_run_writes_nothing(write_sweep: Write, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = labkit(capsys, "sweep", write_sweep(SEARCH), "--dry-run")
    assert code == 0
    assert "8 trials by tpe, study sweeps.mine-" in out
    assert not (project / "runs").exists()


@pytest.mark.usefixtures("synthetic", "no_page")
def test_a_dry_run_says_which_text_is_not_there(write_sweep: Write, capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--json"]):
        code, out, err = labkit(
            capsys, "sweep", write_sweep(SEARCH), "--dry-run", "--set", "data.corpus.path=gone", *more
        )
        assert (code, out, "data.corpus.path: 'gone' is neither a file" in err) == (2, "", True)


@pytest.mark.usefixtures("synthetic", "no_page")
def test_a_micro_batch_that_does_not_divide_the_batch_is_refused(
    write_sweep: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = labkit(capsys, "sweep", write_sweep(SEARCH), "--micro-batch", 3)
    assert (code, "--micro-batch: 3 does not divide batch_size" in err) == (2, True)


@pytest.mark.usefixtures("synthetic", "no_page")
def test_that_a_cpu_is_slow_at_bf16_is_said_once(write_sweep: Write, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("-j", 1, "--trials", 1, "--device", "cpu", "--set", "precision=bf16")
    code, _, err = labkit(capsys, "sweep", write_sweep(SEARCH), *words)
    assert (code, err.count("bf16 is slow on a CPU")) == (0, 1)


@pytest.mark.usefixtures("synthetic", "no_page")
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_an_arm_that_diverges_in_every_trial_is_a_result_without_a_verdict(
    write_sweep: Write, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    compared = '"optimizer.lr": [5e-3, 1]'
    file = write_sweep(COMPARE.replace("optimizer.lr", "clip").replace('"model.norm": ["rms", "layer"]', compared))
    code, out, err = labkit(capsys, "sweep", file, "-j", 1, *words)
    assert code == 0, err
    assert "no verdict: variants: none of their trials came to its end" in err
    if words:
        assert [len(branch["trials"]) for branch in json.loads(out)["branches"]] == [3, 3]
    else:
        assert "none came to its end" in out


TUNED = """
experiment = Experiment(baseline=pico, variants={}, seeds=1, metric="val/loss", match="none",
                        tune=Tune(nuisance={"batch_size": [4, 6, 7]}, trials=2))
"""


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("sweep", SEARCH.replace('"optimizer.lr": log', '"batch_size": [4, 3], "optimizer.lr": log'), "3; write 1"),
        ("sweep", COMPARE.replace('"optimizer.lr": log', '"batch_size": integers(4, 6), "optimizer.lr": log'), "5; wr"),
        ("run", TUNED, "7; write 1, or leave 7 out of the batch sizes to try"),
    ],
)
@pytest.mark.usefixtures("synthetic", "no_page")
def test_a_batch_size_to_be_tried_that_processes_cannot_share_is_refused(
    write_sweep: Write, capsys: pytest.CaptureFixture[str], command: str, code: str, told: str
) -> None:
    file = write_sweep(code)
    code, _, err = labkit(capsys, command, file, "--data-parallel", 2, "--device", "cpu")
    assert (code, f"--data-parallel: 2 does not divide batch_size {told}" in err) == (2, True)
    assert not (file.parents[1] / "runs").exists()


@pytest.mark.usefixtures("synthetic", "no_page")
def test_a_batch_size_that_a_constraint_leaves_out_is_let_pass(
    write_sweep: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    code = SEARCH.replace('"optimizer.lr": log', '"batch_size": integers(2, 6), "optimizer.lr": log')
    even = 'trials=2, constraints={"even": lambda spec: spec.batch_size % 2 == 0}'
    words = ("--data-parallel", 2, "--device", "cpu", "-j", 1)
    assert labkit(capsys, "sweep", write_sweep(code.replace("trials=8", even)), *words)[0] == 0


@pytest.mark.usefixtures("synthetic", "no_page")
def test_damaged_files_of_a_finished_sweep_are_written_again_or_left_out(
    write_sweep: Write, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, edition = write_sweep(SEARCH), project / "runs" / "sweeps.mine" / "main"
    assert labkit(capsys, "sweep", file, "-j", 1, "--trials", 3)[0] == 0
    (edition / "experiment.json").write_text("{")
    assert labkit(capsys, "sweep", file, "--trials", 3)[0] == 0
    assert json.loads((edition / "experiment.json").read_text())["trials"] == 3
    for record in edition.glob("trial-*/*/record.json"):
        record.write_text("{")
    code, out, err = labkit(capsys, "sweep", file, "--trials", 2)
    assert (code, "2 trials: 2 done" in out) == (0, True), err


@pytest.mark.usefixtures("synthetic", "no_page")
def test_mistakes_end_with_2_and_a_changed_space_is_said(
    write_sweep: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = labkit(capsys, "sweep", write_sweep(SEARCH.replace("model.norm", "model.nrm"), "bad.py"))
    assert (code, "Did you mean 'norm'" in err) == (2, True)
    assert labkit(capsys, "sweep", write_sweep(SEARCH, "a.py"), "-j", 1, "--trials", 1)[0] == 0
    monkeypatch.delitem(sys.modules, "sweeps.a")
    code, _, err = labkit(capsys, "sweep", write_sweep(SEARCH.replace("1e-1", "2e-2"), "a.py"), "-j", 1, "--trials", 1)
    assert code == 0
    assert "what is searched has changed: sweeps.a-" in err
    monkeypatch.setenv("LABKIT_OPTUNA_STORAGE", "postgresql://x:secret@127.0.0.1:1/y")
    code, _, err = labkit(capsys, "sweep", write_sweep(SEARCH, "b.py"))
    assert (code, "it cannot be used" in err) == (2, True)
