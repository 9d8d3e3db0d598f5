"""A model with the user's own components makes a training step before anything starts."""

import os
import re
import signal
from pathlib import Path

import pytest

from labkit.cli.application import app
from labkit.spec import Mistake
from labkit.study import rehearsal
from labkit.study.loading import load
from labkit.study.matching import matched
from labkit.tracking import console as console_module
from labkit.tracking.console import Console
from tests.conftest import Write

HEAD = '''"""Does it work?"""

from typing import Any, ClassVar, Literal

import torch
from torch import nn

from experiments.baselines import pico
from labkit import *
from labkit.components import Auxiliary
from labkit.components.gather import AttentionModule
from labkit.optim.guarded import Guarded

'''

TAIL = """

experiment = Experiment(baseline=pico, variants={"mine": {PATH: "mine"}}, seeds=2, metric="val/loss", match="none")
"""

MODULE = """
class Mine(FAMILY):
    kind: Literal["mine"] = "mine"

    def build(self, width, place):
        return Module(width)


class Module(BASE):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    FORWARD
"""

ATTENTION = """
class Mine(Attention):
    kind: Literal["mine"] = "mine"
    n_heads: int = 2

    @property
    def kv_heads(self):
        return 2

    def build(self, width, place, position, dropout):
        return Module(self, width)


class Module(AttentionModule):
    def __init__(self, spec, width):
        super().__init__()
        self.gate = spec.gate
        self.output = Linear(width, Part(Role.OUTPUT, width, width))
"""

NORM, FEED = "model.norm", "model.feedforward"


def module(family: str, forward: str, base: str = "nn.Module") -> str:
    return MODULE.replace("FAMILY", family).replace("BASE", base).replace("FORWARD", forward)


WRONG = {
    "what only the backward pass tells": (
        NORM,
        module("Norm", "def forward(self, x): y = (x * self.gain).exp(); y += 1; return y"),
        r"RuntimeError: .*modified by an inplace operation",
    ),
    "what the first step leaves behind": (
        FEED,
        module(
            "FeedForward",
            "def forward(self, x): self.last = getattr(self, 'last', 0) + x * self.gain; return self.last",
        ),
        "RuntimeError: Trying to backward through the graph a second time",
    ),
    "a norm of queries that takes three dimensions": (
        "model.attention.qk_norm",
        module("Norm", "def forward(self, x): b, t, d = x.shape; return x * self.gain"),
        r"mine\.py:\d+: ValueError: too many values to unpack",
    ),
    "a loss of its own of another shape": (
        FEED,
        module("FeedForward", "def forward(self, x): self.left = (x[:1, :5, 0],); return x * self.gain", "Auxiliary"),
        "RuntimeError: The size of tensor",
    ),
    "an attention that leaves out what it is made of": (
        "model.attention",
        ATTENTION,
        r"mine\.py:\d+: Module\.forward raises NotImplementedError: Module has no heads; write  def heads\(self, x_BTD",
    ),
    "an attention without what its module asks for": (
        "model.attention",
        """
class Mine(Attention):
    kind: Literal["mine"] = "mine"
    n_heads: int = 2

    def fault(self, width):
        return None
""",
        r"mine\.py:\d+: NotImplementedError: Mine has no kv_heads; write  @property def kv_heads\(self\) -> int$",
    ),
    "an attention that knows no earlier tokens": (
        "model.attention",
        ATTENTION
        + """
    def heads(self, x):
        raise SystemError("it is read from its first token on")

    def forward(self, x):
        return self.output(x)
""",
        r"TypeError: Module\.heads\(\) takes 2 .*; it is given \(2, 1, 16\) with offset=31, and is to return",
    ),
    "a head that leaves out what it is made of": (
        "model.head",
        """
from labkit.components.embedding import Head, HeadModule

class Mine(Head):
    kind: Literal["mine"] = "mine"

    def build(self, vocab_size, width):
        return HeadModule(None)
""",
        r"mine\.py:\d+: HeadModule\.forward raises NotImplementedError: HeadModule has no matrix; write  def matrix\(",
    ),
    "a gate of another shape": (
        "model.attention.gate",
        """
class Mine(Gate):
    kind: Literal["mine"] = "mine"

    def rows(self, n_heads, value_dim):
        return 3

    def applied(self, mixed, logits):
        return mixed * logits
""",
        r"mine\.py:\d+: RuntimeError: The size of tensor",
    ),
    "initial values that are none": (
        "model.init",
        """
class Mine(Init):
    kind: Literal["mine"] = "mine"

    def scale(self, part, place, width):
        return 1 - place.n_layers - part.fan_in
""",
        r"RuntimeError: normal expects std >= 0\.0",
    ),
    "a stream that is lost": (
        "model.residual",
        """
class Mine(Residual):
    kind: Literal["mine"] = "mine"
    norms_at_the_end: ClassVar[bool] = True

    def flow(self, branches, stream):
        for branch in branches.both:
            stream.add(branch(stream.normed(branch.norm)))
""",
        r"mine\.py:\d+: .*list",
    ),
    "a feed-forward unit that reads the next token": (
        FEED,
        module("FeedForward", "def forward(self, x): return self.gain * torch.roll(x, -1, 1)"),
        r"mine\.py:\d+: Mine lets a token see later ones: what is predicted after token 16 of 32 changed",
    ),
    "a norm over all tokens": (
        NORM,
        module("Norm", "def forward(self, x): return self.gain * (x - x.mean(-2, keepdim=True))"),
        r"mine\.py:\d+: Mine lets a token see later ones",
    ),
    "a branch that is zero at the start, and reads on": (
        FEED,
        module("FeedForward", "def forward(self, x): return (self.gain - 1) * torch.roll(x, -1, -2)"),
        r"mine\.py:\d+: Mine lets a token see later ones",
    ),
    "a module that learns nothing": (
        FEED,
        module("FeedForward", "def forward(self, x): return (x * self.gain).detach()"),
        r"mine\.py:\d+: Module\.forward leaves all 16 numbers of its parameters without a gradient",
    ),
    "an optimizer of another library": (
        "optimizer",
        """
class Mine(Optimizer):
    kind: Literal["mine"] = "mine"

    def build(self, weights):
        return torch.optim.SGD([weight.value for weight in weights])
""",
        r"mine\.py:\d+: Mine\.build gives a SGD; let it return a Stepper, such as labkit\.optim\.guarded\.Guarded$",
    ),
    "an optimizer that steps nothing": (
        "optimizer",
        """
from labkit.optim.stepper import Stepper
from labkit.optim.weights import groups

class Mine(Optimizer):
    kind: Literal["mine"] = "mine"

    def build(self, weights):
        return Stepper(groups(weights, self, 0.0), {})
""",
        r"mine\.py:\d+: NotImplementedError: Stepper has no step; write  def step\(self\) -> None \(in a training step",
    ),
    "a rule that forgets": (
        "optimizer",
        """
class Mine(Optimizer):
    kind: Literal["mine"] = "mine"

    def build(self, weights):
        return Guarded(self, weights, 0.0)

    def start(self, weight):
        return {"m": torch.zeros_like(weight.value)}

    def direction(self, gradient, weight, state):
        return gradient, {}
""",
        r"mine\.py:\d+: KeyError: 'm'",
    ),
    "a rate that is no number": (
        "schedule",
        """
class Mine(Schedule):
    kind: Literal["mine"] = "mine"

    def after(self, step, steps):
        if step:
            return 1 - step / steps
""",
        r"mine\.py:\d+: Mine\.factor\(0, 20\) gives None; let it return a number from 0$",
    ),
    "a budget of half a step": (
        "budget",
        """
class Mine(Budget):
    kind: Literal["mine"] = "mine"

    def whole_steps(self, tokens_per_step, flops_per_token):
        return 2.5
""",
        r"mine\.py:\d+: Mine\.whole_steps gives 2\.5; let it return an int from 1$",
    ),
}


def made(write: Write, code: str, path: str, precision: str = "fp32") -> Path:
    text = HEAD + code + TAIL.replace("PATH", repr(path))
    return write(text.replace("baseline=pico", f"baseline=pico.patched({{'precision': {precision!r}}})"))


def tried(file: Path) -> None:
    loaded = load(file)
    matched(loaded.experiment, loaded.base)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_would_fail_in_the_worker_is_told_before_anything_starts(write: Write, wrong: str) -> None:
    path, code, told = WRONG[wrong]
    with pytest.raises(Mistake, match=rf"variant 'mine': .*{told}"):
        tried(made(write, code, path))


@pytest.mark.parametrize(
    "forward",
    [
        "return self.gain * x.cumsum(-2)",
        "return self.gain * (x + torch.rand_like(x))",
        "self.times = getattr(self, 'times', 0) + 1; return self.gain * x * self.times",
        "return self.gain * x.roll(1, -2)[..., 1:, :].new_zeros(()) + self.gain * x",
    ],
)
def test_what_depends_on_earlier_tokens_on_chance_or_on_calls_is_let_pass(write: Write, forward: str) -> None:
    tried(made(write, module("FeedForward", f"def forward(self, x): {forward}"), FEED))


UNLIKE = "def forward(self, x): return (x * self.gain) @ torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)"


def test_precisions_that_meet_are_let_pass(write: Write) -> None:
    tried(made(write, module("FeedForward", UNLIKE), FEED))


@pytest.mark.parametrize("cheap", [rehearsal.CHEAP, 1.5e6])
def test_precisions_that_do_not_meet_are_told_of_a_large_model_too(
    write: Write, monkeypatch: pytest.MonkeyPatch, cheap: float
) -> None:
    monkeypatch.setattr(rehearsal, "CHEAP", cheap)
    monkeypatch.setattr(rehearsal, "SHORT", 8)
    told = r"mine\.py:\d+: RuntimeError: .* \(in a training step in bf16, tried beforehand\)$"
    with pytest.raises(Mistake, match=told):
        tried(made(write, module("FeedForward", UNLIKE), FEED, "bf16"))


@pytest.mark.parametrize("cheap", [1.5e6, 0.0])
@pytest.mark.parametrize("size", [16, 5])
def test_of_a_large_model_shapes_are_told_and_the_length_is_not_held_against_it(
    write: Write, monkeypatch: pytest.MonkeyPatch, size: int, cheap: float
) -> None:
    monkeypatch.setattr(rehearsal, "CHEAP", cheap)
    monkeypatch.setattr(rehearsal, "SHORT", 8)
    gate = """
class Mine(Gate):
    kind: Literal["mine"] = "mine"

    def applied(self, mixed, logits):
        return mixed.unflatten(1, (-1, SIZE)).flatten(1, 2)
"""
    file = made(write, gate.replace("SIZE", str(size)), "model.attention.gate")
    if size == 16:
        tried(file)
    else:
        with pytest.raises(Mistake, match=r"mine\.py:\d+: RuntimeError: .*5.*tried beforehand"):
            tried(file)


def test_a_composition_is_tried_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    made_steps: list[object] = []
    monkeypatch.setattr(rehearsal, "_steps", lambda *given: made_steps.append(given))
    file = made(write, module("Norm", "def forward(self, x): return x * self.gain"), NORM)
    for _ in range(2):
        tried(file)
    assert len(made_steps) == 1


def test_an_experiment_of_labkits_own_components_is_not_tried(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(rehearsal, "_steps")
    tried(project / "experiments" / "theta.py")


@pytest.mark.parametrize("command", ["run", "show"])
def test_one_that_never_returns_is_told_of_and_ends_with_an_interrupt(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    say, before = Console.say, signal.signal(signal.SIGINT, signal.default_int_handler)

    def pressing(console: Console, text: str = "", style: str = "") -> None:
        say(console, text, style)
        if "is being tried" in text:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(console_module, "PATIENCE", 0.1)
    monkeypatch.setattr(Console, "say", pressing)
    source = module("Norm", "def forward(self, x):\n        while not x.is_meta: pass\n        return x * self.gain")
    try:
        assert app([command, str(made(write, source, NORM))], standalone_mode=False) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    told, ended = capsys.readouterr().err.splitlines()
    assert re.match(r"variant 'mine': Mine \(.*mine\.py:\d+\) is being tried on a few tokens; Ctrl-C ends that$", told)
    assert ended.startswith("interrupted")
