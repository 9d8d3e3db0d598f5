"""Executors: how many workers there are and where, and how their deaths are told."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from labkit.spec import Mistake
from labkit.study.executors import Answer, Slot, Worker, crew_of, slots
from labkit.tracking.record import Run
from labkit.train.run import Runtime

Machine = Callable[..., None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with so many GPUs and cores."""

    def made(gpus: int, cores: int = 4, visible: str = "") -> None:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return made


def test_a_cpu_has_a_single_threaded_worker_a_core(machine: Machine) -> None:
    machine(gpus=0, cores=3)
    found = slots(Runtime(device="auto"))
    assert [(slot.runtime.device, slot.environment["OMP_NUM_THREADS"]) for slot in found] == [("cpu", "1")] * 3
    assert len(slots(Runtime(device="cpu"), workers=1)) == 1


def test_each_gpu_has_a_worker_that_sees_no_other(machine: Machine) -> None:
    machine(gpus=2)
    found = slots(Runtime(device="auto"))
    assert [(slot.runtime.device, slot.environment["CUDA_VISIBLE_DEVICES"]) for slot in found] == [
        ("cuda", "0"),
        ("cuda", "1"),
    ]
    assert len(slots(Runtime(device="cuda"), workers=1)) == 1


def test_processes_that_share_a_batch_have_gpus_or_cores_together(machine: Machine) -> None:
    machine(gpus=5, visible="0,3,4,6,7")
    found = slots(Runtime(device="auto", data_parallel=2))
    assert [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in found] == ["0,3", "4,6"]
    assert crew_of(found) == "2 cuda workers of 2 processes"
    machine(gpus=0, cores=5)
    assert len(slots(Runtime(device="auto", data_parallel=2))) == 2
    assert len(slots(Runtime(device="cpu", data_parallel=8))) == 1


@pytest.mark.parametrize(
    ("gpus", "device", "told"),
    [
        (1, "auto", "there is one CUDA device here; leave it out"),
        (2, "cuda", "there are 2 CUDA devices here; write --data-parallel 2"),
        (4, "cuda:1", "--device cuda:1 is one GPU; write --device cuda"),
    ],
)
def test_more_processes_than_gpus_are_refused(machine: Machine, gpus: int, device: str, told: str) -> None:
    machine(gpus)
    with pytest.raises(Mistake, match=f"--data-parallel 3: {told}"):
        slots(Runtime(device=device, data_parallel=3))


def test_gpus_are_counted_among_those_that_are_visible(machine: Machine) -> None:
    machine(gpus=2, visible="5,GPU-7")
    (slot,) = slots(Runtime(device="cuda:1"))
    assert slot.environment == {"CUDA_VISIBLE_DEVICES": "GPU-7"}


def test_the_runtime_is_kept_apart_from_its_device(machine: Machine) -> None:
    machine(gpus=1)
    (slot,) = slots(Runtime(device="auto", mode="fast", micro_batch=2))
    assert slot.runtime == Runtime(device="cuda", mode="fast", micro_batch=2)


@pytest.mark.parametrize(
    ("gpus", "device", "told"), [(0, "cuda", "there is no CUDA"), (2, "cuda:2", "there are 2 CUDA")]
)
def test_a_device_that_is_not_there_is_refused(machine: Machine, gpus: int, device: str, told: str) -> None:
    machine(gpus)
    with pytest.raises(Mistake, match=f"--device {device}: {told}"):
        slots(Runtime(device=device))


def test_a_worker_that_cannot_start_says_why(tmp_path: Path) -> None:
    worker = Worker(Slot(Runtime(device="cpu"), {"PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nowhere"}))
    worker.give(Run(tmp_path))
    answer = worker.answer(60)
    worker.end()
    assert isinstance(answer, Answer)
    assert (answer.status, answer.died) == ("failed", True)
    assert "exit code 1" in answer.error
    assert "encodings" in answer.said
