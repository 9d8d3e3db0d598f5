"""The command line: what it answers, what it refuses, and that a run survives what happens to runs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from labkit.cli import app
from labkit.data import prepare
from labkit.tracking import mlflow
from labkit.tracking.record import Edition, Run
from labkit.train.loop import train
from labkit.train.run import RunSpec, Runtime

Write = Callable[..., Path]
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
LABKIT = [sys.executable, "-m", "labkit"]

OWN_NORM = '''"""A norm of one's own.

Question  Is it as good?
"""
from typing import Literal

import torch
from torch import nn

from experiments.baselines import pico
from labkit import Experiment, Norm, Place


class Mine(Norm):
    """x / max|x|."""

    kind: Literal["mine"] = "mine"
    floor: float = 1e-3

    def build(self, width: int, place: Place) -> nn.Module:
        return MineNorm(self.floor)


class MineNorm(nn.Module):
    def __init__(self, floor: float) -> None:
        super().__init__()
        self.floor = floor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / x.abs().amax(-1, keepdim=True).clamp_min(self.floor)


experiment = Experiment(
    baseline=pico, variants={"mine": {"model.norm": "mine"}}, seeds=2, metric="val/bpb", match="none"
)
'''


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, mlflow_store: str) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_store)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def labkit(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [*LABKIT, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, project: Path) -> Callable[..., Result]:
    """The command in this process, standing in the project: for what starts no worker."""
    monkeypatch.chdir(project)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@contextmanager
def running(words: Sequence[object], folder: Path) -> Generator[subprocess.Popen[bytes]]:
    """The command, going on; whatever happens, it is over at the end."""
    command = [*LABKIT, *map(str, words)]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """What the condition gives once it gives something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise TimeoutError


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in path.parts}


def test_help_answers_at_once_and_imports_nothing_heavy() -> None:
    code = "import sys, labkit.cli as c\ntry: c.app(['--help'])\nexcept SystemExit: pass\nprint(sorted(sys.modules))"
    begun = os.times()
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    ended = os.times()
    assert ended.children_user + ended.children_system - begun.children_user - begun.children_system < 0.5
    for command in ("run", "show", "components", "report", "sync", "ui", "doctor"):
        assert f" {command} " in told
    for heavy in ("torch", "mlflow", "datasets", "tokenizers", "matplotlib", "scipy", "numpy", "pydantic"):
        assert f"'{heavy}'" not in told


def test_the_package_imports_nothing_until_a_word_is_used() -> None:
    code = "import labkit, sys; assert 'pydantic' not in sys.modules; labkit.Spec; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_word_is_there() -> None:
    import labkit

    for word in labkit.__all__:
        assert getattr(labkit, word) is not None
    with pytest.raises(AttributeError, match="no attribute 'Experimnet'"):
        _ = labkit.Experimnet


def test_a_norm_of_ones_own_works_everywhere_without_another_edit(
    project: Path, write: Write, ask: Callable[..., Result]
) -> None:
    file = write(OWN_NORM)
    ran = labkit("run", file, "--workers", 1, folder=project)
    assert ran.returncode == 0, ran.stderr
    assert not CONTROL.search(ran.stdout + ran.stderr)
    assert "mine · seed 1" in ran.stderr
    assert re.search(r"^ mine +[+-]\d\.\d{4} +\[", ran.stdout, re.MULTILINE)
    assert "· 2 seeds ·" in ran.stdout
    assert "\nconfounds none     diverged 0 of 4 runs     epochs 0.07\n" in ran.stdout
    page = project / "runs" / "mine" / "main" / "report.html"
    assert page.exists()
    assert f"report  {page}" in ran.stderr

    again = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "labkit", "run", str(file), "--json"],
        cwd=project, capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in again.stderr.splitlines() if line.startswith("import time")}
    assert "labkit.study.runner" in imported
    assert "mlflow" not in imported
    assert "all 4 runs are finished already" in again.stderr
    told = json.loads(again.stdout)
    assert [arm["name"] for arm in told["arms"]] == ["baseline", "mine"]
    assert told["arms"][1]["counts"] == {"done": 2}

    folder = next(project.glob("runs/mine/main/mine/seed0-*"))
    file.unlink()
    assert ask("show", "mine:mine:0").stdout.startswith("mine:mine:0\n path ")
    assert json.loads(ask("show", folder, "--json").stdout)["spec"]["model"]["norm"] == {"kind": "mine", "floor": 1e-3}
    reported = json.loads(ask("report", "mine", "--json").stdout)
    assert (reported["title"], reported["question"]) == ("mine", "Is it as good?")


@pytest.mark.usefixtures("no_drawings")
def test_what_happens_to_a_run_changes_no_digit(project: Path, ask: Callable[..., Result]) -> None:
    """The driver is killed, then interrupted, then its worker is killed; an uninterrupted run is the oracle."""
    command = ["run", "experiments/theta.py", "--only", "baseline", "--seeds", 1, "--steps", 800, "--workers", 1]
    with running(command, project) as driver:
        run = wait_for(lambda: Edition(project / "runs" / "theta" / "steps=800").runs())[0]
        wait_for(lambda: run.lines()[0])
        driver.kill()
    wait_for(lambda: not run.owned)
    assert run.record()["status"] == "paused"

    with running(command, project) as driver:
        wait_for(moves_on(run))
        driver.send_signal(signal.SIGINT)
        assert driver.wait(60) == 130
    assert run.record()["status"] == "paused"

    moved = moves_on(run)
    Thread(target=lambda: wait_for(moved) and os.kill(run.record()["pid"], signal.SIGKILL)).start()
    failed = ask(*command)
    assert failed.exit_code == 1
    assert run.record()["status"] == "failed"
    assert "killed by SIGKILL" in failed.stderr
    assert str(run.console_log) in failed.stderr

    assert ask(*command).exit_code == 0
    straight = uninterrupted(run, project / "straight")
    assert curves(run) == curves(straight)
    assert run.record()["final"]["val/loss"] == straight.record()["final"]["val/loss"]


def uninterrupted(run: Run, folder: Path) -> Run:
    """The same run, in this process and without a break."""
    spec, base = RunSpec.from_json(run.spec()), Path(run.record()["base"])
    other = Run(folder)
    other.create(run.spec(), {"base": str(base), "sources": {}})
    train(other, spec, Runtime(device="cpu"), prepare(spec.data, spec.tokenizer, base), lambda: False)
    return other


def moves_on(run: Run) -> Callable[[], bool]:
    """Whether a run that was stopped has written something since."""
    before = len(run.lines()[0])
    return lambda: run.record()["status"] == "running" and len(run.lines()[0]) > before + 1


def curves(run: Run) -> dict[str, list[tuple[int, float]]]:
    """What a run came to on its way, apart from how fast it went."""
    return {key: curve for key, curve in run.metrics().items() if not key.startswith("perf/")}


def test_a_dry_run_shows_the_runs_and_writes_nothing(project: Path, ask: Callable[..., Result]) -> None:
    before = tree(project)
    shown = ask("run", "experiments/theta.py", "--dry-run", "--set", "clip=0.5")
    assert shown.exit_code == 0
    assert "theta@clip=0.5" in shown.stdout
    assert re.search(r"theta=1000 +model.position.theta: 10000 → 1000 +0, 1 +7488 .* 20 +- +- +2 new", shown.stdout)
    assert re.search(r"^to train  6 runs, [\d.e+]+ FLOPs", shown.stdout, re.MULTILINE)
    told = json.loads(ask("run", "experiments/theta.py", "--dry-run", "--json", "--only", "theta=1000").stdout)
    assert [(run["variant"], run["seed"], run["need"]) for run in told["runs"]] == [
        ("baseline", 0, "new"),
        ("theta=1000", 0, "new"),
        ("baseline", 1, "new"),
        ("theta=1000", 1, "new"),
    ]
    assert told["runs"][1]["changes"] == {"model.position.theta": ["10000", "1000"]}
    assert tree(project) == before


MISSING = {
    "a text": (
        {"kind": "text", "path": "../gone/*.txt"},
        "data.corpus.path: '../gone/*.txt' is neither a file, a folder",
    ),
    "rows": ({"kind": "hf", "path": "../gone.parquet"}, "data.corpus.path: '../gone.parquet' is neither a file"),
    "a package": (
        {"kind": "packages", "names": ["nowhere"]},
        "data.corpus.names: no Python sources of a package 'nowhere'",
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_dry_run_says_which_text_cannot_be_there(project: Path, ask: Callable[..., Result], name: str) -> None:
    corpus, told = MISSING[name]
    for path, value in {"data.corpus": corpus, "evaluation.also": {"more": corpus}}.items():
        refused = ask("run", "experiments/theta.py", "--dry-run", "--set", f"{path}={json.dumps(value)}")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert told in " ".join(refused.stderr.split())
    assert not (project / "runs").exists()


def test_show_prints_the_spec_the_changes_and_the_costs(ask: Callable[..., Result]) -> None:
    shown = ask("show", "experiments/theta.py", "--baseline", "wide").stdout
    assert re.search(r"^ model.d_model +32$", shown, re.MULTILINE)
    assert re.search(r"^ theta=1000 +model.position.theta +10000 +1000$", shown, re.MULTILINE)
    told = json.loads(ask("show", "experiments/theta.py", "--json").stdout)
    base, first, _ = told["arms"]
    assert base["params"] == sum(part["params"] for part in base["components"].values())
    assert base["flops_per_token"] == sum(part["flops_per_token"] for part in base["components"].values())
    assert first["changes"] == {"model.position.theta": ["10000", "1000"]}


def test_components_are_listed_with_formula_paper_and_defaults(write: Write, ask: Callable[..., Result]) -> None:
    shown = ask("components").stdout
    rms = r"^ rms +x / √\(mean\(x²\) \+ eps\) · gain.*arXiv:1910\.07467.* eps=1e-06, casting=llama\|gemma, gain=True$"
    assert re.search(rms, shown, re.MULTILINE)
    assert not re.search(r"^ mine ", shown, re.MULTILINE)
    told = json.loads(ask("components", write(OWN_NORM), "--json").stdout)["families"]["Norm"]["variants"]
    assert told["mine"] == {
        "module": "experiments.mine",
        "doc": "x / max|x|.",
        "fields": {"floor": "0.001"},
        "choices": {},
        "docs": {},
    }


def test_a_component_that_is_named_is_told_field_by_field(write: Write, ask: Callable[..., Result]) -> None:
    shown = ask("components", "mla", "model.pattern", write(OWN_NORM), "mine").stdout
    assert re.search(r"^Attention .*\n at model.attention$", shown, re.MULTILINE)
    assert re.search(r"^ kv_rank +None +Features of the latent vector c; 4 · head_dim", shown, re.MULTILINE)
    assert re.search(r"^ qk_norm_place +before_position +before_position, after_position +Whether", shown, re.MULTILINE)
    assert re.search(r"^ model.pattern +\(\) +Changes to a layer", shown, re.MULTILINE)
    assert re.search(r"^ floor +0.001$", shown, re.MULTILINE)
    assert not re.search(r"^ (rms|gqa|rope) ", shown, re.MULTILINE)
    refused = ask("components", "Attenton")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "labkit: Attenton: no family, kind or field has this name. Did you mean 'Attention'? "
        "`labkit components` shows all there is.\n",
    )


def test_a_damaged_experiment_does_not_keep_the_others_from_mlflow(ask: Callable[..., Result], project: Path) -> None:
    for name in ("first", "second"):
        run = Run(project / "runs" / name / "main" / "baseline" / "seed0-0123456789abcdef")
        run.create({}, {"variant": "baseline", "arm": "0", "fingerprint": "0123456789abcdef", "seed_index": 0})
        run.update(status="done")
        (project / "runs" / name / "main" / "experiment.json").write_text("{")
    told = ask("sync")
    assert told.exit_code == 2
    assert all(f"{name}/main/experiment.json" in "".join(told.output.split()) for name in ("first", "second"))


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ([1, 0, 3], ["a: 1 run brought up to date", "c: 3 runs brought up to date", "b: up to date already"]),
        ([0, 2, 0], ["b: 2 runs brought up to date", "2 experiments: up to date already"]),
        ([0, 0, 0], ["3 experiments: up to date already"]),
    ],
)
def test_experiments_that_mlflow_knows_already_are_told_in_one_line(
    ask: Callable[..., Result], project: Path, monkeypatch: pytest.MonkeyPatch, counts: list[int], told: list[str]
) -> None:
    for name in "abc":
        Edition(project / "runs" / name / "main").describe({})
    known = dict(zip("abc", counts, strict=True))
    monkeypatch.setattr(mlflow, "sync", lambda edition, _: known[edition.title])
    assert ask("sync").stderr.splitlines() == told


def test_doctor_says_what_is_here(ask: Callable[..., Result]) -> None:
    told = json.loads(ask("doctor", "--json").stdout)
    assert {"name", "ok", "found", "remedy"} == set(told["checks"][0])
    assert "torch" in ask("doctor").stdout


def experiment(**fields: str) -> str:
    words = {"baseline": "pico", "variants": "{}", "seeds": "1", "metric": "'val/loss'", "match": "'none'", **fields}
    call = ", ".join(f"{name}={value}" for name, value in words.items())
    return f"from experiments.baselines import pico\nfrom labkit import *\n\nexperiment = Experiment({call})\n"


def component(body: str) -> str:
    return (
        "from typing import Literal\n\nimport torch\nfrom torch import nn\n\nfrom experiments.baselines import pico\n"
        "from labkit import *\n\nclass Mine(Norm):\n    kind: Literal['mine'] = 'mine'\n"
        "    def build(self, width, place):\n"
        f"        {body}\n\nexperiment = Experiment(baseline=pico, variants={{'a': {{'model.norm': 'mine'}}}}, "
        "seeds=1, metric='val/loss', match='none')\n"
    )


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        ("x = 1", [], ["mine.py", "no 'experiment'", "write  experiment = Experiment("]),
        ("pico", [], ["mine.py:1", "NameError: name 'pico' is not defined"]),
        ("x = (", [], ["mine.py:1", "SyntaxError"]),
        (experiment(variants="vary('model.norm', ['rsm'])"), [], ["mine.py:4", "model.norm", "'rsm'", "mean 'rms'"]),
        (experiment(variants="vary('model.nrm', ['rms'])"), [], ["mine.py:4", "model.nrm", "mean 'norm'"]),
        (experiment(variants="{'a': {'clip': 'x'}}"), [], ["mine.py:4", "variant 'a': clip", "'x'"]),
        (experiment(variants="{'a': {'model.attention.n_heads': 3}}"), [], ["'a': model.attention: n_heads 3", "16"]),
        (experiment(variants="{'a': {'model.pattern': [{'window': 3}]}}"), [], ["'a': model.pattern.0.window: layers"]),
        (experiment(variants="{'a': {'model.d_model': 32}}", match="'params'"), [], ["'a'", "match='params'", "%"]),
        (experiment(variants="{'a': {'schedule.warmup': 99}}"), [], ["'a'", "schedule.warmup", "99", "20"]),
        (experiment(seeds="0"), [], ["mine.py:4", "seeds", "0"]),
        (experiment(metric="'val/los'"), [], ["mine.py:4", "val/los", "mean 'val/loss'"]),
        ("import sys\nsys.exit(0)", [], ["mine.py:2", "sys.exit(0)"]),
        ("import sys\nsys.exit(5)", [], ["mine.py:2", "sys.exit(5)"]),
        ("class Odd(BaseException): ...\nraise Odd('x')", [], ["mine.py:2", "Odd: x"]),
        (component("raise KeyError('k')"), [], ["variant 'a'", "mine.py:12", "KeyError: 'k'"]),
        (component("raise SystemExit(3)"), [], ["variant 'a'", "mine.py:12", "sys.exit(3)"]),
        (component("return torch.zeros(1).item()"), [], ["variant 'a'", "mine.py:12", "meta"]),
        (component("return None"), [], ["variant 'a'", "mine.py:11", "Mine.build gives None", "nn.Module"]),
        (component("return lambda x: x"), [], ["variant 'a'", "mine.py:11", "Mine.build gives <function"]),
        (component("m = nn.Identity(); m.flops = 3; return m"), [], ["variant 'a'", "mine.py:11", "TypeError", "int"]),
        (experiment(), ["--baseline", "os:path"], ["--baseline os:path", "os holds no run spec", "module:NAME"]),
        (experiment(), ["--baseline", "..x:y"], ["--baseline ..x:y", "module:NAME"]),
        (experiment(), ["--baseline", "baselines.py:pico"], ["--baseline baselines.py:pico", "module:NAME"]),
        (experiment(), ["--runs", ""], ["--runs", "a folder"]),
        (experiment(), ["--seeds", "999999999"], ["--seeds", "1000"]),
        (experiment(), ["--set", "clip"], ["--set clip", "write path=value"]),
        (experiment(), ["--set", "model.norm=rsm"], ["--set", "model.norm", "mean 'rms'"]),
        (experiment(), ["--baseline", "pic"], ["--baseline pic", "mean 'pico'"]),
        (experiment(), ["--only", "base"], ["--only base", "baseline"]),
        (experiment(), ["--only", "baseline,baseline"], ["no such variant. Write --only baseline --only baseline"]),
        (experiment(), ["--device", "cuda"], ["--device cuda", "no CUDA device", "--device cpu"]),
        (experiment(), ["--device", "tpu"], ["--device", "tpu", "write auto, cpu, cuda"]),
        (experiment(), ["--mode", "quick"], ["--mode", "quick", "exact"]),
        (experiment(), ["--capture", "on"], ["--capture", "on", "auto"]),
        (experiment(), ["--micro-batch", "3"], ["--micro-batch: 3", "4", "write 2"]),
        (experiment(), ["--data-parallel", "3"], ["--data-parallel: 3", "batch_size 4", "write 2"]),
        (experiment(), ["--data-parallel", "2", "--side-by-side", "2"], ["--data-parallel: 2", "side_by_side is 2"]),
        (experiment(), ["--runs", "text/0.txt/runs"], ["--runs text/0.txt/runs", "cannot write there"]),
        (experiment(), ["--set", "data.corpus.path=nowhere"], ["data.corpus.path", "nowhere"]),
        (experiment(), ["--set", "data.corpus.path=empty"], ["data.corpus", "empty"]),
        (experiment(), ["--set", "model.context=6000"], ["baseline", "split has", "6001", "write a context of"]),
    ],
)
def test_a_mistake_is_one_message_before_anything_is_written(  # noqa: PLR0917
    project: Path, write: Write, ask: Callable[..., Result], text: str, words: list[str], told: list[str]
) -> None:
    file = write(text)
    (project / "empty").mkdir()
    before = tree(project)
    answer = ask("run", file, *words)
    assert answer.exit_code == 2, answer.output
    for part in told:
        assert part in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stdout == ""
    assert tree(project) == before


def test_what_a_file_prints_is_no_result(write: Write, ask: Callable[..., Result]) -> None:
    file = write("print('loaded')\n" + component("print('built'); return nn.Identity()"))
    shown = ask("show", file, "--json")
    assert [arm["name"] for arm in json.loads(shown.stdout)["arms"]] == ["baseline", "a"]
    assert "loaded" in shown.stderr
    assert "built" in shown.stderr


def test_a_traceback_is_there_for_who_asks(write: Write, ask: Callable[..., Result]) -> None:
    file = write("1 / 0")
    for words in (["run", file, "--debug"], ["--debug", "run", file]):
        answer = ask(*words)
        assert answer.exit_code == 2
        assert "Traceback" in answer.stderr
        assert "mine.py:1: ZeroDivisionError: division by zero" in answer.stderr


@pytest.mark.parametrize("command", ["run", "plan", "show", "warm"])
def test_a_sweep_is_told_its_command(ask: Callable[..., Result], write: Write, command: str) -> None:
    answer = ask(command, write("sweep = 3"))
    assert answer.exit_code == 2
    assert "mine.py: this is a sweep; write  labkit sweep" in " ".join(answer.stderr.split("\n"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["rum"], "Did you mean 'run'"),
        (["run"], "FILE"),
        (["run", "nowhere.py"], "nowhere.py: no such experiment file"),
        (
            ["run", "experiments"],
            "experiments: this is a folder; write a file in it, such as",
        ),
        (
            ["warm", "experiments/theta.py", "--micro-batch", "3"],
            "--micro-batch: 3 does not divide batch_size 4",
        ),
        (["warm", "experiments/theta.py", "--device", "cuda:99"], "--device cuda:99: torch sees"),
        (["show", "experiments"], "experiments: this folder holds no run"),
        (["report", "theta", "--runs", "pyproject.toml"], "--runs pyproject.toml: there is no such folder"),
        (["table", "theta", "--runs", "gone"], "--runs gone: there is no such folder"),
        (["report", "theta"], "theta: no experiment in"),
        (["report", "theta@wide"], "theta@wide: no experiment in"),
        (["run", "experiments/theta.py", "--seeds", "0"], "--seeds"),
    ],
)
def test_what_is_not_there_is_missed_by_name(ask: Callable[..., Result], words: list[str], told: str) -> None:
    answer = ask(*words)
    assert answer.exit_code == 2
    assert told in answer.stderr
