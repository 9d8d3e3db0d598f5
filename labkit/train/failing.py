"""Why a run or a process failed, in a line for the record."""

import signal

import torch

from labkit.faults import explain
from labkit.spec import Mistake, ValidationError
from labkit.train.run import RunSpec


def in_a_line(error: BaseException) -> str:
    """What went wrong."""
    if isinstance(error, ValidationError):
        return explain(error, RunSpec).replace("\n", "; ")
    first = str(error).partition("\n")[0]
    if isinstance(error, torch.OutOfMemoryError):
        return f"out of memory: give --micro-batch, or --activation-checkpointing. {first}"
    return first if isinstance(error, Mistake) else f"{type(error).__name__}: {first}"


def death(who: str, code: int, said: str) -> str:
    """Why a process is gone: the signal by its name, or its exit code, and the last line that it wrote."""
    last = f": {said.splitlines()[-1]}" if said else ""
    if code >= 0:
        return f"{who} left with exit code {code}{last}"
    name = signal.Signals(-code).name
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    return f"{who} was killed by {name}{hint}{last}"
