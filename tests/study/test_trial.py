"""A user's own components are tried on the tensors that a model gives them, before anything long starts."""

from pathlib import Path

import pytest

from labkit.spec import Mistake
from labkit.study import trial
from labkit.study.loading import load
from labkit.study.matching import matched
from tests.conftest import Write

FILE = '''"""Does it work?"""

from typing import Literal

import torch
from torch import nn

from experiments.baselines import pico
from labkit import Experiment, FeedForward, Head, Norm, Place


class Mine(FAMILY):
    """Mine."""

    kind: Literal["mine"] = "mine"

    def build(self, width, place):
        return Module(width)


class Module(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    FORWARD


experiment = Experiment(
    baseline=pico, variants={"mine": {PATH: "mine"}}, seeds=2, metric="val/loss", match="none"
)
'''

FORWARDS = {
    "a shape": ("def forward(self, x): return x[:, :-1]", r"returns a tensor of \(2, 31, 16\)"),
    "a tuple": ("def forward(self, x): return x, x", "returns a tuple"),
    "nothing": ("def forward(self, x): x / 2", "returns a NoneType"),
    "a signature": ("def forward(self, x, y): return x", r"raises TypeError: .*missing 1 required .*: 'y'"),
    "a name": ("def forward(self, x): return x * gain", "raises NameError: name 'gain' is not defined"),
    "sizes": ("def forward(self, x): return x @ torch.ones(3, 3)", "raises RuntimeError: .+"),
}


def made(write: Write, forward: str, family: str = "Norm", path: str = "'model.norm'") -> Path:
    return write(FILE.replace("FORWARD", forward).replace("FAMILY", family).replace("PATH", path))


def tried(file: Path) -> None:
    loaded = load(file)
    matched(loaded.experiment, loaded.base)


@pytest.mark.parametrize("path", ["model.norm", "model.feedforward", "model.attention.qk_norm"])
@pytest.mark.parametrize("forward", FORWARDS)
def test_a_forward_that_gives_something_else_is_told_with_what_it_is_given(
    write: Write, forward: str, path: str
) -> None:
    family = "FeedForward" if path == "model.feedforward" else "Norm"
    code, told = FORWARDS[forward]
    place = r"variant 'mine': .*mine\.py:26: Module\.forward "
    with pytest.raises(
        Mistake, match=rf"{place}{told}; it is given \(2, 32, 16\), and is to return a tensor of \(2, 32, 16\)$"
    ):
        tried(made(write, code, family, f"'{path}'"))


def test_a_component_of_one_layer_is_tried_too(write: Write) -> None:
    file = made(write, FORWARDS["a tuple"][0])
    file.write_text(file.read_text().replace("{'model.norm': \"mine\"}", "{'model.pattern': [{'norm': 'mine'}]}"))
    with pytest.raises(Mistake, match=r"Module\.forward returns a tuple"):
        tried(file)


GOOD = {
    "a choice by values": "def forward(self, x): return x if x[:, 0].sum().item() > 0 else -x",
    "a tensor made elsewhere": "def forward(self, x): return x * torch.ones(1, device='cpu')[0]",
    "another precision": "def forward(self, x): return (x.double() / 2).to(x.dtype)",
    "chunks of the context": "def forward(self, x): return x.view(x.shape[0], x.shape[1] // 16, 16, -1).flatten(1, 2)",
    "two devices": "def forward(self, x): assert x.is_cpu or x.is_cuda; return x",
    "a GPU alone": "def forward(self, x): assert x.is_cuda, 'a kernel for CUDA'; return x",
}


@pytest.mark.parametrize("forward", GOOD)
def test_what_shapes_alone_cannot_tell_is_let_pass(write: Write, forward: str) -> None:
    tried(made(write, GOOD[forward]))


def test_a_build_that_gives_no_module_is_told(write: Write) -> None:
    file = made(write, GOOD["another precision"])
    file.write_text(file.read_text().replace("return Module(width)", "return width"))
    with pytest.raises(Mistake, match=r"mine\.py:17: Mine\.build gives 16; let it return an nn\.Module"):
        tried(file)


def test_a_module_without_a_forward_is_told(write: Write) -> None:
    file = made(write, "def foward(self, x): return x")
    with pytest.raises(Mistake, match=r"mine\.py:17: Mine\.build gives a Module, which has no forward"):
        tried(file)


POSITION = '''"""Does it work?"""

from typing import Literal

import torch
from torch import nn

from experiments.baselines import pico
from labkit import Experiment, Position
from labkit.components.bias import ScoreBias


class Mine(Position):
    """Mine."""

    kind: Literal["mine"] = "mine"

    def METHOD(self, size, place):
        return Module(size, place)


class Module(BASE):
    def __init__(self, size, place):
        super().__init__()
        self.size, self.context = size, place.context

    FORWARD


experiment = Experiment(
    baseline=pico, variants={"mine": {"model.position": "mine"}}, seeds=2, metric="val/loss", match="none"
)
'''

WRONG = {
    "a rotary of another shape": (
        "rotary",
        "def forward(self, x, offset=0): return x[..., 1:]",
        r"Module\.forward returns a tensor of \(2, 32, 4, 7\); it is given \(2, 32, 4, 8\) with offset=0, and is to",
    ),
    "a rotary without an offset": (
        "rotary",
        "def forward(self, x): return x",
        r"Module\.forward raises TypeError: .*unexpected keyword argument 'offset'; it is given \(2, 32, 4, 8\) with",
    ),
    "a rotary of whole sequences": (
        "rotary",
        "def forward(self, x, offset=0): return x + torch.zeros(self.context, 1, 1)",
        r"returns a tensor of \(2, 32, 4, 8\); it is given \(2, 1, 4, 8\) with offset=31, and is to",
    ),
    "a rotary of the training length": (
        "rotary",
        "def forward(self, x, offset=0): return x * torch.ones(self.context, 1, 1)[offset : offset + x.shape[1]]",
        r"raises RuntimeError: The size of tensor .* must match .*; it is given \(1, 64, 4, 8\) with offset=0",
    ),
    "a bias of another shape": (
        "bias",
        "def forward(self, distance): return distance[1:]",
        r"returns a tensor of \(31, 32\); it is given \(32, 32\), and is to return a tensor of \(2, 32, 32\)$",
    ),
    "a bias that is none": (
        "bias",
        "def froward(self, distance): pass",
        r"Module has no forward; write  def forward\(self, distance_TS: Tensor\) -> Tensor; it is given \(32, 32\)",
    ),
    "an embedding of the training length": (
        "build",
        "def forward(self, x, offset=0): return x + torch.zeros(self.context, self.size)[: x.shape[1]]",
        r"raises RuntimeError: .*; it is given \(1, 64, 16\), and is to return .*\(1, 64, 16\) \(evaluation\.beyond ",
    ),
}


def position(write: Write, method: str, forward: str) -> Path:
    base = "ScoreBias" if method == "bias" else "nn.Module"
    return write(POSITION.replace("METHOD", method).replace("BASE", base).replace("FORWARD", forward))


@pytest.mark.parametrize("wrong", WRONG)
def test_a_position_is_tried_at_every_length_that_is_read(write: Write, wrong: str) -> None:
    method, forward, told = WRONG[wrong]
    with pytest.raises(Mistake, match=rf"variant 'mine': .*mine\.py:\d+: .*{told}"):
        tried(position(write, method, forward))


def test_a_bias_may_be_the_same_for_all_heads(write: Write) -> None:
    tried(position(write, "bias", "def forward(self, distance): return -distance[None]"))


def test_a_bias_has_to_be_one_that_scores_know(write: Write) -> None:
    file = position(write, "bias", "def forward(self, distance): return -distance[None]")
    file.write_text(file.read_text().replace("(ScoreBias)", "(nn.Module)"))
    told = r"Mine\.bias gives Module\(\); let it return a labkit\.components\.bias\.ScoreBias$"
    with pytest.raises(Mistake, match=told):
        tried(file)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("    def rotary", "    def reach(self, context):\n        return context\n\n    def rotary"),
        ("baseline=pico", "baseline=pico.patched({'evaluation.beyond': []})"),
    ],
)
def test_a_length_that_is_not_read_is_not_tried(write: Write, here: str, there: str) -> None:
    method, forward, _ = WRONG["a rotary of the training length"]
    file = position(write, method, forward)
    file.write_text(file.read_text().replace(here, there))
    tried(file)


@pytest.mark.parametrize(("cheap", "afforded", "place"), [(1e9, 1e11, "CPU"), (-1, 1e11, "CPU"), (-1, -1, "shapes")])
def test_the_cpu_has_the_last_word_where_it_is_not_too_slow(
    write: Write, monkeypatch: pytest.MonkeyPatch, cheap: float, afforded: float, place: str
) -> None:
    monkeypatch.setattr(trial, "CHEAP", cheap)
    monkeypatch.setattr(trial, "AFFORDED", afforded)
    with pytest.raises(Mistake, match=f"raises ValueError: wrong on {place};"):
        tried(made(write, "def forward(self, x): raise ValueError('wrong on ' + ('CPU' if x.is_cpu else 'shapes'))"))
