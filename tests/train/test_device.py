"""Which device, and what is set on it."""

import random

import numpy as np
import pytest
import torch

from labkit.spec import Mistake
from labkit.train import device as devices
from labkit.train.run import Runtime

without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


def test_the_cpu_is_always_there() -> None:
    assert devices.select("cpu") == torch.device("cpu")
    assert devices.name(torch.device("cpu")) == "cpu"


@without_cuda
def test_auto_is_the_cpu_where_there_is_no_cuda() -> None:
    assert devices.select("auto") == torch.device("cpu")


@without_cuda
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_an_absent_device_is_refused_by_name(name: str) -> None:
    with pytest.raises(Mistake, match=f"--device {name}: torch sees 0 CUDA devices, counted from 0"):
        devices.select(name)


@pytest.mark.parametrize(("mode", "exact"), [("exact", True), ("fast", False)])
def test_settings_hold_for_the_run_and_are_taken_back(mode: str, exact: bool) -> None:
    before = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    with devices.settings(Runtime.from_json({"device": "cpu", "mode": mode, "threads": 1})):
        assert torch.are_deterministic_algorithms_enabled() is exact
        assert torch.backends.cuda.cudnn_sdp_enabled() is not exact
        assert torch.get_num_threads() == 1
    assert (torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()) == before


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA H200", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA L40S", 362),
        ("NVIDIA L4", 121),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA RTX A4000", None),
    ],
)
def test_the_peak_of_known_gpus_is_found_by_name(monkeypatch, name: str, tflops: float | None) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: name)
    expected = None if tflops is None else pytest.approx(tflops * 1e12)
    assert devices.peak_flops(torch.device("cuda"), "bf16") == expected


def test_no_peak_is_claimed_for_a_cpu_or_another_precision() -> None:
    assert devices.peak_flops(torch.device("cpu"), "bf16") is None
    assert devices.peak_flops(torch.device("cuda"), "fp32") is None


def test_memory_is_that_of_this_process() -> None:
    assert 0.05 < devices.memory_gib(torch.device("cpu")) < 64


def test_what_a_module_draws_from_any_generator_follows_the_key() -> None:
    def drawn(*key: object) -> list[float]:
        devices.reseed(torch.device("cpu"), *key)
        return [float(torch.rand(())), random.random(), float(np.random.random())]

    assert drawn("a", 1) == drawn("a", 1)
    assert not set(drawn("a", 1)) & set(drawn("a", 2))
