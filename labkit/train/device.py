"""The device of a run: which one, what it promises about its numbers, what it can do at best, how full it is."""

import gc
import os
import platform
import random
import re
import resource
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labkit import kernels
from labkit.components.parameters import key as hashed
from labkit.optim.weights import Precision
from labkit.spec import Mistake
from labkit.train.lanes import lane
from labkit.train.run import Runtime

_deterministic: Any = torch.utils.deterministic  # a module that torch gives properties, unseen by type checkers

PEAK_BF16_TFLOPS = {
    "B200": 2250.0,
    "GH200": 989.0,
    "H200": 989.0,
    "H100 PCIe": 756.0,
    "H100 NVL": 835.0,
    "H100": 989.0,
    "A100": 312.0,
    "A40": 149.7,
    "A10G": 70.0,
    "A10": 125.0,
    "L40S": 362.0,
    "L40": 181.0,
    "L4": 121.0,
    "RTX 5090": 209.5,
    "RTX 4090": 165.2,
    "RTX 3090": 71.0,
}
"""Dense products in bf16 with fp32 sums, from the data sheets; of two names that fit, the first counts."""


def select(name: str) -> torch.device:
    """The device that a runtime asks for. Raises Mistake if it is not there."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    device = torch.device("cuda" if name == "auto" else name)
    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (device.index or 0) >= seen:
        raise Mistake(f"--device {name}: torch sees {seen} CUDA devices, counted from 0; write --device cpu, or auto")
    return torch.device("cuda", device.index or 0)


@contextmanager
def settings(runtime: Runtime) -> Generator[torch.device]:
    """The device for whoever works on it alone: what a runtime promises holds, and all is queued in one lane."""
    with promised(runtime) as device, lane(device).turn():
        yield device


@contextmanager
def promised(runtime: Runtime) -> Generator[torch.device]:
    """The device, with what a runtime promises set on this process, until the last run that asked for it is over.

    exact: deterministic kernels only, which rules cuDNN's attention out. Neither mode rounds products of fp32 to TF32.
    """
    device = select(runtime.device)
    if not _promises or _promises[-1].runtime != runtime:
        promise = Promise(runtime)
        promise.kept.enter_context(_kept(runtime, device))
        _promises.append(promise)
    promise = _promises[-1]
    promise.count += 1
    try:
        yield device
    finally:
        promise.count -= 1
        if promise.count == 0:
            _promises.remove(promise)
            promise.kept.close()
        if device.type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()


@dataclass(eq=False)
class Promise:
    """What is set on this process, and how many rely on it."""

    runtime: Runtime
    count: int = 0
    kept: ExitStack = field(default_factory=ExitStack)


_promises: list[Promise] = []


@contextmanager
def _kept(runtime: Runtime, device: torch.device) -> Generator[None]:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    exact, before = runtime.mode == "exact", _state()
    deterministic(exact)
    torch.backends.cuda.enable_cudnn_sdp(not exact)
    torch.set_float32_matmul_precision("highest")
    _deterministic.fill_uninitialized_memory = False  # would write every new tensor once more
    if device.type == "cpu":
        torch.set_num_threads(runtime.threads)
    else:
        torch.cuda.set_device(device)
        torch.cuda.reset_peak_memory_stats(device)
    try:
        with kernels.using(runtime.kernels, fast=not exact):
            yield
    finally:
        _restore(*before)


def reseed(device: torch.device, *key: object) -> None:
    """Let what a user's module draws from torch's, NumPy's and Python's own generators be a pure function of a key."""
    seed = hashed(*key)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)


def deterministic(chosen: bool) -> None:
    """Whether an operation without a deterministic kernel is an error.

    It is torch.use_deterministic_algorithms, without the compiler that it imports (seconds).
    """
    torch.set_deterministic_debug_mode("error" if chosen else "default")


def _state() -> tuple[bool, bool, str, bool, int]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cuda.cudnn_sdp_enabled(),
        torch.get_float32_matmul_precision(),
        _deterministic.fill_uninitialized_memory,
        torch.get_num_threads(),
    )


def _restore(exact: bool, cudnn_attention: bool, products: str, fill: bool, threads: int) -> None:
    deterministic(exact)
    torch.backends.cuda.enable_cudnn_sdp(cudnn_attention)
    torch.set_float32_matmul_precision(products)
    _deterministic.fill_uninitialized_memory = fill
    torch.set_num_threads(threads)


def name(device: torch.device) -> str:
    """``cpu``, or the model of the GPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def peak_flops(device: torch.device, precision: Precision) -> float | None:
    """FLOP/s that the device reaches at best in bf16, where that is known; no claim is made for other precisions."""
    if device.type == "cpu" or precision != "bf16":
        return None
    known = name(device)
    return next((1e12 * peak for model, peak in PEAK_BF16_TFLOPS.items() if re.search(rf"\b{model}\b", known)), None)


def memory_gib(device: torch.device) -> float:
    """The most memory that the run held on a GPU so far; on a CPU, what the process holds now."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**30
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**30


def versions() -> dict[str, Any]:
    """What the numbers of a run may depend on beside its spec."""
    return {
        "labkit": version("labkit-lm"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }
