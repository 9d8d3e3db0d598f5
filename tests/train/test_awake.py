"""What is loaded ahead, and for which device."""

import threading

import pytest
import torch

from labkit.train import awake


@pytest.mark.parametrize(
    ("arguments", "device"),
    [
        (["worker", "--runtime", '{"device": "cuda:1"}'], "cuda:1"),
        (["worker", "--runtime", "{}", "runs/a"], "auto"),
        (["worker", "runs/a"], "auto"),
        (["worker", "--runtime"], "auto"),
        (["worker", "--runtime", "[1]"], "auto"),
        (["worker", "--runtime", "{"], "auto"),
    ],
)
def test_the_device_is_that_of_the_command_line(arguments: list[str], device: str) -> None:
    assert awake.asked(arguments) == device


@pytest.mark.parametrize(("there", "device", "loaded"), [(True, "cuda:1", [1]), (True, "cpu", []), (False, "auto", [])])
def test_only_a_gpu_that_is_asked_for_is_loaded(monkeypatch, there: bool, device: str, loaded: list[int]) -> None:
    found: list[int | None] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(awake, "_gpu", lambda chosen: found.append(chosen.index))
    monkeypatch.setattr(awake, "_name_of_triton", lambda: lambda: None)
    before = threading.active_count()
    awake.begin(["worker", "--runtime", f'{{"device": "{device}"}}'])
    awake.finish()
    assert found == loaded
    assert threading.active_count() == before
