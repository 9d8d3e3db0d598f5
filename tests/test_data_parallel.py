"""Processes that share the batch of a run: the numbers of one, whatever happens to any of them."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from labkit.components import Norm
from labkit.tracking.record import Run
from labkit.tracking.source import capture
from labkit.train import leader, loop
from labkit.train.distributed import opened
from labkit.train.leader import Follower
from labkit.train.run import Runtime
from labkit.worker import Trained, main
from tests.specs import TINY

SHARED = {
    **TINY,
    "model": {**TINY["model"], "dropout": 0.1},
    "budget": {"kind": "steps", "steps": 20},
    "evaluation": {"points": 2, "windows": 4},
}
WIDE, MANY = {**SHARED["model"], "d_model": 64}, {"kind": "steps", "steps": 6000}
EARLY = 40
"""Steps; what rounding differs by is at 2e-6 of the loss there, and later grows as by another micro-batch."""
ENDLESS = {"budget": {"kind": "steps", "steps": 10**6}}
Train = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("".join(f"{n * n} is the square of {n}.\n" for n in range(300)))


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Run]:
    def planned(name: str, source: str = "", **changes: Any) -> Run:
        run = Run(tmp_path / name)
        (tmp_path / "mine.py").write_text(source)
        sources = capture(run.source, {"mine.py": tmp_path / "mine.py"} if source else {})
        run.create({**SHARED, **changes}, {"base": str(tmp_path), "sources": sources})
        return run

    return planned


@pytest.fixture
def train(capsys: pytest.CaptureFixture[str]) -> Iterator[Train]:
    """Trains runs in a worker that is this process, which starts the others; gives the answers."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def trained(*runs: Run, **runtime: Any) -> list[str]:
        main(["--runtime", json.dumps({"device": "cpu", **runtime}), *(str(run.path) for run in runs)])
        told = map(json.loads, capsys.readouterr().out.splitlines())
        return [line["status"] for line in told if "run" in line]

    yield trained
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a worker process that is gone when the test ends, and its group with it."""
    started: list[subprocess.Popen[str]] = []

    def begin(**runtime: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "labkit.worker", "--runtime", json.dumps({"device": "cpu", **runtime})]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        with process:
            process.kill()


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def give(worker: subprocess.Popen[str], *runs: Run) -> None:
    assert worker.stdin
    worker.stdin.write("".join(f"{run.path}\n" for run in runs))
    worker.stdin.flush()


def told(worker: subprocess.Popen[str], *runs: Run) -> list[str]:
    """What it answers of runs, after which it leaves."""
    assert worker.stdout
    give(worker, *runs)
    answers = (json.loads(line) for line in worker.stdout)
    said = list(itertools.islice((line["status"] for line in answers if "run" in line), len(runs)))
    worker.communicate(timeout=60)
    return said


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def exact(run: Run) -> dict[str, Any]:
    """All that a run must repeat to the last digit."""
    final = {key: value for key, value in run.record()["final"].items() if not key.startswith("perf/")}
    curves = {key: points for key, points in run.metrics().items() if not key.startswith("perf/")}
    return {"final": final, **curves, "weights": {name: w.tolist() for name, w in weights(run).items()}}


def weights(run: Run) -> dict[str, torch.Tensor]:
    return load_file(run.checkpoints / "final.safetensors")


def test_two_processes_have_the_run_of_one_and_the_same_bits_every_time(plan, train, monkeypatch) -> None:
    alone, two, again, stopped = (plan(name) for name in ("alone", "two", "again", "stopped"))
    monkeypatch.setattr(Trained, "is_told", lambda each: each.run == stopped and is_in_its_first_session(stopped, 7))
    monkeypatch.setattr(loop, "peak_flops", lambda *_: 1e12)
    train(alone)
    wild = plan("wild", optimizer={"kind": "adamw", "lr": 1e8})
    told = ["done", "diverged", "done", "paused", "done"]
    assert train(two, wild, again, stopped, stopped, data_parallel=2, micro_batch=1) == told
    for key in ("train/loss", "optim/grad_norm", "val/loss"):
        ours, theirs = (torch.tensor([value for _, value in run.metrics()[key]]) for run in (two, alone))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=0)
    torch.testing.assert_close(weights(two), weights(alone), rtol=1e-5, atol=1e-5)
    assert exact(two) == exact(again) == exact(stopped)
    assert [session["step"] for session in stopped.record()["sessions"]] == [0, 7]
    assert two.record()["runtime"]["data_parallel"] == 2
    assert two.record()["final"]["perf/mfu"] == pytest.approx(two.record()["final"]["perf/tflops"] / 2)
    assert (
        "data parallel: 2 processes share each batch; another number changes the last digits" in two.record()["notes"]
    )
    assert two.console_of(1).exists()


def is_in_its_first_session(run: Run, steps: int) -> bool:
    """Whether it is, and has made so many steps."""
    return len(run.record().get("sessions", [])) == 1 and len(run.metrics().get("train/loss", [])) >= steps


def test_a_process_that_is_killed_fails_the_run_and_ends_the_group(plan, start) -> None:
    run = plan("run", **ENDLESS)
    worker = start(data_parallel=2)
    give(worker, run)
    wait_for(run.metrics)
    (follower,) = children(worker.pid)
    os.kill(follower, signal.SIGKILL)
    told = [json.loads(line) for line in worker.stdout]
    why = "rank 1 was killed by SIGKILL (out of memory?)"
    assert told == [{"room": 0}, {"run": str(run.path), "status": "failed", "error": why}]
    assert worker.wait(timeout=10) == 1
    assert (run.record()["status"], run.owned) == ("failed", False)
    assert "rank 1 was killed" in run.console_log.read_text()


@pytest.fixture
def second(plan) -> Iterator[Callable[[str], tuple[Follower, Run]]]:
    """Has the second of two processes begin a run of a user's source, for which the first never meets it."""
    store, port = opened(2)
    process = Follower(Runtime(device="cpu", data_parallel=2), 1, port)

    def begun(source: str) -> tuple[Follower, Run]:
        run = plan("run", source)
        process.tell(run=str(run.path), checkpoint=None)
        wait_for(lambda: run.console_of(1).exists() and "loaded" in run.console_of(1).read_text())
        return process, run

    yield begun
    process.leave()
    process.end()
    process.close()
    del store


def test_a_process_is_gone_when_the_first_one_is_whatever_it_waits_for(second) -> None:
    process, _ = second("print('loaded')")
    process.leave()
    assert process.process.wait(timeout=10) == 0


def test_what_a_process_raises_is_told_in_a_line_and_is_in_its_log_in_full(second) -> None:
    process, run = second("import os\nprint('loaded')\nos.write(1, b'{no answer\\n')\nraise ValueError('not now')")
    assert process.listen(lambda *_: None) == "rank 1: ValueError: not now"
    assert "Traceback" in run.console_of(1).read_text()


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes back what a user's source leaves in this process."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(Norm, "variants", Norm.variants.copy())


OWN = """
import os
from typing import Literal
import torch
from torch import nn
from labkit.components import Norm

class Own(Norm):
    kind: Literal["own"] = "own"

    def build(self, width, place):
        return Scale(width)

class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.register_buffer("offset", torch.full((width,), {offset}))

    def forward(self, x):
        if self.training:
            self.scale.data += {drift}
        return x * self.scale + self.offset
"""


@pytest.mark.parametrize(
    ("offset", "drift", "told"),
    [
        ("1e-6 * os.getpid()", 0, "rank 1 built another model than rank 0"),
        (0.0, "1e-9 * os.getpid()", "after 10 steps rank 1 has other weights than rank 0"),
    ],
)
@pytest.mark.usefixtures("untouched")
def test_processes_that_part_fail_the_run(plan, train, offset, drift, told) -> None:
    run = plan("run", OWN.format(offset=offset, drift=drift), model={**SHARED["model"], "norm": "own"})
    assert train(run, data_parallel=2) == ["failed"]
    assert f"--data-parallel 2: {told}" in run.record()["error"]
    assert "val/loss" not in run.metrics()


ABSENT = "--data-parallel 2: rank 1 has not come for 0.1 s; what is printed there is in console-1.log, beside this"
SLOW = "__import__('time').sleep(60 if '--rank' in __import__('sys').argv else 0) or 0.0"


@pytest.mark.usefixtures("untouched")
def test_a_process_that_does_not_come_to_a_run_fails_it_when_it_has_had_its_time(plan, train, monkeypatch) -> None:
    expect = leader.Leader.expect

    def expecting(group: leader.Leader) -> None:
        monkeypatch.setattr(leader, "MEETING", 60.0 if group.meetings == 1 else 0.1)
        expect(group)

    monkeypatch.setattr(leader.Leader, "expect", expecting)
    source = OWN.format(offset=SLOW, drift=0)
    first, second = plan("first", source), plan("second", source, model={**SHARED["model"], "norm": "own"})
    assert train(first, second, data_parallel=2) == ["done", "failed"]
    assert second.record()["error"].startswith(ABSENT)


def test_so_does_one_that_comes_and_says_nothing(plan, train, monkeypatch) -> None:
    monkeypatch.setattr(leader.Leader, "expect", lambda _: monkeypatch.setattr(leader, "MEETING", 0.1))
    monkeypatch.setattr(leader.wires, "told", lambda _: {})
    run = plan("run")
    assert train(run, data_parallel=2) == ["failed"]
    assert run.record()["error"].startswith(ABSENT)


@pytest.mark.usefixtures("untouched")
def test_buffers_of_each_process_are_said_to_be_its_own(plan, train) -> None:
    source = OWN.format(offset=0.0, drift=0).replace("self.scale.data += 0", "self.offset += x.detach().mean((0, 1))")
    run = plan("run", source, model={**SHARED["model"], "norm": "own"})
    assert train(run, data_parallel=2) == ["done"]
    assert loop.PARTED in run.record()["notes"]


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are not two CUDA devices")
@pytest.mark.parametrize("micro_batch", [None, 1])
def test_two_gpus_have_the_run_of_one_captured_and_the_same_bits_every_time(plan, start, micro_batch) -> None:
    alone, two, again, cut = (plan(name, model=WIDE, budget=MANY) for name in ("alone", "two", "again", "cut"))
    shared = {"device": "cuda", "data_parallel": 2, "micro_batch": micro_batch}
    assert told(start(device="cuda"), alone) == ["done"]
    assert told(start(**shared), two, again) == ["done", "done"]
    worker = start(**shared)
    give(worker, cut)
    wait_for(cut.metrics)
    worker.stdin.close()
    assert worker.wait(timeout=60) == 0
    assert (cut.record()["status"], told(start(**shared), cut)) == ("paused", ["done"])
    assert two.record()["execution"] == "captured"
    ours, theirs = (
        torch.tensor([value for step, value in run.metrics()["train/loss"] if step <= EARLY]) for run in (two, alone)
    )
    assert len(ours) > 5
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=0)
    assert exact(two) == exact(again) == exact(cut)
