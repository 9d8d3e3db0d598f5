"""What takes long to load and needs no Python, loaded while the rest of a new process is imported: the GPU's context,
the library of products, and the name of the installed Triton, which is a hash of half a gigabyte.
"""

import importlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch

from labkit.train.lanes import lane

_threads: list[threading.Thread] = []


def begin(arguments: Sequence[str]) -> None:
    """Begin for the device of a worker's command line; on a CPU there is nothing to load."""
    device = asked(arguments)
    if device != "cpu" and torch.cuda.is_available():
        _, _, index = device.partition(":")
        for work in (lambda: _gpu(torch.device("cuda", int(index or 0))), _name_of_triton()):
            _threads.append(threading.Thread(target=work, daemon=True))
            _threads[-1].start()


def asked(arguments: Sequence[str]) -> str:
    """The device that a command line names; auto where it names none."""
    with suppress(ValueError, IndexError, AttributeError):
        runtime = json.loads(arguments[list(arguments).index("--runtime") + 1])
        return str(runtime.get("device", "auto"))
    return "auto"


def finish() -> None:
    """Wait until nothing of it is under way."""
    while _threads:
        _threads.pop().join()


def _gpu(device: torch.device) -> None:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    with suppress(RuntimeError), torch.no_grad():  # whoever works on it says better what is wrong
        torch.cuda.set_device(device)
        torch.cuda.init()
        with lane(device).turn():
            square = torch.ones(128, 128, dtype=torch.bfloat16, device=device)
            torch.nn.functional.linear(square, square).sum().item()


def _name_of_triton() -> Callable[[], object]:
    """What computes it; it is imported here, so that no two threads import parts of one package."""
    try:
        cache: Any = importlib.import_module("triton.runtime.cache")
    except ImportError:
        return lambda: None
    return getattr(cache, "triton_key", lambda: None)
