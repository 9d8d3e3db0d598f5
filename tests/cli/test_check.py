"""`labkit check`: the tables, the documents, the exit codes, and what is refused."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from typer.testing import CliRunner, Result

from labkit.cli import app
from labkit.components.parametrization import Mup
from labkit.study import agreement
from labkit.train.twins import Twins

Ask = Callable[..., Result]
QUICK = ("--widths", "16,32,64", "--seeds", "1", "--steps", "2")


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, project: Path) -> Ask:
    """The command in this process, standing in the project."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return lambda *words: CliRunner().invoke(app, ["check", *map(str, words)])


def test_mup_stands_beside_standard_and_is_flat(ask: Ask, project: Path) -> None:
    before = set(project.rglob("*"))
    answer = ask("mup", "experiments/theta.py", *QUICK)
    assert answer.exit_code == 0, answer.output
    assert set(project.rglob("*")) - before <= {project / "experiments" / "__pycache__"}
    first, second = answer.stdout.split("theta  mup(base_width=16)")
    assert first.startswith("theta  standard\n")
    for table in (first, second):
        head, _, *rows = [line.split("  ") for line in table.splitlines() if line.startswith(" ")]
        assert [word.strip() for word in head if word] == ["mean |x|", "in 2 steps", "16", "32", "64", "slope"]
        assert [[word.strip() for word in row if word][1] for row in rows] == ["start", "change"] * 6
    assert "standard: " in second
    assert "of 12 grow faster than width^0.25; the change of" in second
    assert "mup(base_width=16): flat: nothing grows faster than width^0.25" in second


def test_as_json_it_is_one_document(ask: Ask) -> None:
    told = json.loads(ask("mup", "experiments/theta.py", *QUICK, "--json", "--baseline", "wide").stdout)
    assert (told["title"], told["steps"], told["seeds"], told["tolerance"]) == ("theta@wide", 2, 1, 0.25)
    standard, mup = told["parametrizations"]
    assert (standard["parametrization"], standard["flat"]) == ({"kind": "standard"}, False)
    assert (mup["parametrization"]["base_width"], mup["flat"], mup["widths"]) == (16, True, [16, 32, 64])
    line = mup["lines"][0]
    assert (line["activation"], line["quantity"], line["flat"], len(line["values"])) == ("embedding", "start", True, 3)
    assert standard["lines"][0]["values"][0] == line["values"][0]


def test_a_mup_that_is_not_flat_is_exit_code_1(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mup, "readout", lambda self, width: nn.Identity())
    answer = ask("mup", "experiments/theta.py", *QUICK)
    assert answer.exit_code == 1
    assert "mup(base_width=16): 1 of 12 grow" in answer.stdout or "mup(base_width=16): 2 of 12 grow" in answer.stdout


def test_a_run_that_is_not_finite_is_said_so_and_null_in_json(ask: Ask) -> None:
    words = ("--set", "optimizer.lr=1e38", "--set", "model.norm=none", "--set", "clip=null")
    answer = ask("mup", "experiments/theta.py", *QUICK, *words)
    assert answer.exit_code == 1
    assert "is not finite" in answer.stdout
    told = json.loads(ask("mup", "experiments/theta.py", *QUICK, *words, "--json").stdout)
    assert [line["slope"] for line in told["parametrizations"][1]["lines"] if line["activation"] == "logits"][1] is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["mpu", "experiments/theta.py"], ["No such command 'mpu'. Did you mean 'mup'?"]),
        (["mup"], ["FILE"]),
        (["mup", "nowhere.py"], ["nowhere.py: no such experiment file"]),
        (["mup", "experiments/theta.py", "--widths", "64"], ["--widths 64", "two widths", "write 64,128,256"]),
        (["mup", "experiments/theta.py", "--widths", "a,b"], ["--widths a,b", "write 64,128,256"]),
        (["mup", "experiments/theta.py", "--widths", "16,17"], ["d_model 17: feedforward.multiple_of 8 times 17/16"]),
        (["mup", "experiments/theta.py", "--steps", "0"], ["--steps"]),
        (["mup", "experiments/theta.py", "--device", "tpu"], ["--device", "write auto, cpu, cuda"]),
        (
            ["mup", "experiments/theta.py", "--set", 'model.parametrization={"kind": "mup", "base_width": 0}'],
            ["--set: model.parametrization.base_width", "greater than 0"],
        ),
        (["mup", "experiments/theta.py", "--set", "model.parametrization=mpu"], ["parametrization", "mean 'mup'"]),
    ],
)
def test_a_mistake_is_one_message(ask: Ask, words: list[str], told: list[str]) -> None:
    answer = ask(*words)
    assert answer.exit_code == 2
    assert all(part in answer.stderr for part in told), answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stdout == ""


def test_an_optimizer_of_ones_own_without_a_rule_is_refused(ask: Ask, project: Path) -> None:
    file = project / "experiments" / "own.py"
    file.write_text(
        "from typing import Literal\n\nimport torch\n\nfrom experiments.baselines import pico\n"
        "from labkit import *\n\n\n"
        'class Plain(Optimizer):\n    """w ← w - lr g."""\n\n    kind: Literal["plain"] = "plain"\n\n'
        "    def build(self, weights):\n"
        "        return torch.optim.SGD([weight.value for weight in weights], lr=self.lr)\n\n\n"
        'experiment = Experiment(baseline=pico.patched({"optimizer": "plain"}), variants={}, seeds=1, '
        'metric="val/loss", match="none")\n'
    )
    answer = ask("mup", file, *QUICK)
    assert answer.exit_code == 2
    assert "optimizer: plain does not say how its learning rate follows the width, which mup" in answer.stderr


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy of what a mask hides
def test_kernels_stand_beside_their_references(ask: Ask) -> None:
    if torch.cuda.is_available():
        pytest.skip("kernels run in Triton's interpreter where there is no GPU")
    words = ("kernels", "experiments/theta.py", "--steps", 1, "--only", "baseline", "--device", "cpu")
    told = json.loads(ask(*words, "--json").stdout)
    assert (told["title"], told["steps"], told["seeds"], list(told["variants"])) == ("theta", 1, 2, ["baseline"])
    found = told["variants"]["baseline"]
    assert found["agree"]
    assert found["difference"] < 1e-3 < found["spread"]
    assert found["kernels"] == pytest.approx(found["references"], abs=1e-3)


def test_kernels_that_part_are_exit_code_1(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    parted = Twins(kernels=2.0, references=1.0, difference=math.nan, spread=0.1)
    monkeypatch.setattr(agreement, "twins", lambda *arguments: parted)
    monkeypatch.setattr(agreement, "on_device", lambda device: "triton")
    answer = ask("kernels", "experiments/theta.py", "--only", "baseline")
    assert answer.exit_code == 1
    assert "baseline: the kernels change more than a seed of the initial values does" in answer.stdout
    told = json.loads(ask("kernels", "experiments/theta.py", "--only", "baseline", "--json").stdout)
    assert told["variants"]["baseline"]["difference"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "bseline"), "--only bseline: no such variant. Did you mean 'baseline'?"),
        (("--seeds", "1"), "--seeds"),
        (
            ("--device", "cpu"),
            "check kernels: there is nothing to compare on this machine's CPU, where every run",
        ),
    ],
)
def test_kernels_cannot_be_checked_without(ask: Ask, monkeypatch, words: tuple[str, ...], said: str) -> None:
    monkeypatch.setattr(agreement, "on_device", lambda device: "torch")
    answer = ask("kernels", "experiments/theta.py", *words)
    assert answer.exit_code == 2
    assert said in answer.stderr
