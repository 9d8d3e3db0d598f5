# pyright: basic, reportInvalidTypeForm=false
"""Which path a call takes, the form that tensors take for a kernel, and how wide each kernel is launched.

A kernel runs where its tensors are on a GPU, of a type that it knows, and Triton is installed; elsewhere, and wherever
`using("torch")` or torch.compile says so, the torch reference does.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial, wraps
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

try:
    import triton.language
except ImportError:  # Triton is made for Linux: elsewhere the kernels are defined, and never run
    _triton: Any = None
    tl: Any = SimpleNamespace(constexpr=lambda value: value)
else:
    _triton, tl = triton, triton.language


def jit(function: Any = None, **options: Any) -> Any:
    """A kernel, or a function that kernels call."""
    if function is None:
        return partial(jit, **options)
    return function if _triton is None else _triton.jit(function, **options)


Kernels = Literal["auto", "triton", "torch"]
"""auto: Triton on a GPU; triton: also in Triton's interpreter on a CPU, where that is on; torch: the references."""

DTYPES = (torch.bfloat16, torch.float16, torch.float32)

_chosen: list[Kernels] = ["auto"]
_fast = [False]


@contextmanager
def using(kernels: Kernels, *, fast: bool = False) -> Iterator[None]:
    """What every call inside takes, in all threads; and whether it may be what does not repeat bit for bit."""
    _chosen.append(kernels)
    _fast.append(fast)
    try:
        yield
    finally:
        _chosen.pop()
        _fast.pop()


def is_fast() -> bool:
    """Whether a call may take what is faster and does not repeat bit for bit."""
    return _fast[-1]


def available(*tensors: Tensor | None) -> bool:
    """Whether the kernels take these tensors; None stands for one that is not there."""
    given = [tensor for tensor in tensors if tensor is not None]
    if _triton is None or _chosen[-1] == "torch" or torch.compiler.is_compiling():
        return False
    return all(map(_fits, given)) and len({tensor.device for tensor in given}) == 1


def _fits(tensor: Tensor) -> bool:
    plain = type(tensor) in (Tensor, nn.Parameter) and tensor.dtype in DTYPES and tensor.numel() > 0
    return plain and _runs_on(tensor.device, _chosen[-1])


def on_device(device: torch.device) -> Literal["triton", "torch"]:
    """What calls on a device take, where the shapes and types allow it."""
    has_kernels = _triton is not None and _chosen[-1] != "torch" and _runs_on(device, _chosen[-1])
    return "triton" if has_kernels else "torch"


@lru_cache
def _runs_on(device: torch.device, kernels: Kernels) -> bool:
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and kernels == "triton" and _triton.knobs.runtime.interpret


@lru_cache
def multiprocessors(device: torch.device) -> int:
    """How many programs surely run at once; 2 in the interpreter, so that one has several turns."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Where kernels are launched: Triton looks at the current device, not at the tensors."""
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(device)


def once(backward: Callable[..., Any]) -> Callable[..., Any]:
    """The backward of a kernel, which has no derivative of its own: asking for one is an error, never a zero."""

    @wraps(backward)
    def guarded(ctx: Any, *upstream: Tensor | None) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("a kernel is differentiable once: for create_graph=True take the references (torch)")
        return backward(ctx, *upstream)

    return guarded


def rows(x: Tensor) -> Tensor:
    """x as a matrix (rows, width) whose columns lie side by side: a view where the strides allow it, else a copy."""
    matrix = x.reshape(-1, x.shape[-1])
    return matrix if matrix.stride(1) == 1 else matrix.contiguous()


def power(width: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << (width - 1).bit_length()


class Setting(NamedTuple):
    """How a kernel is launched."""

    elements: int
    """Of a program's tile: rows · columns, the columns rounded up to a power of two."""
    warps: int
    programs: int = 0
    """For each multiprocessor, where programs take several tiles in turn; 0: as many as there are tiles."""
    stages: int = 1
    """How many tiles are loaded ahead, and one more."""


def team(warps: int) -> dict[str, Any]:
    """The options of a launch: a program's warps; and that products and sums may fuse, which newer Tritons ask."""
    return {"num_warps": warps, "enable_fp_fusion": True}


ANY = 1 << 40

SETTINGS: dict[str, tuple[tuple[int, Setting], ...]] = {
    "rms_norm": (
        (1024, Setting(1024, 2)),
        (2048, Setting(2048, 4)),
        (4096, Setting(4096, 4)),
        (16384, Setting(8192, 16)),
    ),
    "rms_norm_backward": (
        (64, Setting(2048, 4, 2, 3)),
        (256, Setting(1024, 1, 8, 3)),
        (1024, Setting(2048, 2, 4, 3)),
        (2048, Setting(4096, 4, 2, 3)),
        (4096, Setting(4096, 8, 2, 3)),
        (8192, Setting(8192, 8, 1, 3)),
        (16384, Setting(16384, 16, 1, 3)),
    ),
    "layer_norm": (
        (128, Setting(1024, 1)),
        (256, Setting(2048, 4)),
        (1024, Setting(1024, 1)),
        (2048, Setting(2048, 2)),
        (4096, Setting(4096, 4)),
        (16384, Setting(8192, 16)),
    ),
    "layer_norm_backward": (
        (64, Setting(2048, 4, 2, 3)),
        (128, Setting(1024, 1, 8, 3)),
        (256, Setting(512, 1, 8, 4)),
        (768, Setting(1024, 1, 8, 3)),
        (2048, Setting(2048, 2, 4, 3)),
        (4096, Setting(4096, 4, 2, 3)),
        (8192, Setting(8192, 8, 1, 3)),
        (16384, Setting(16384, 16, 1, 3)),
    ),
    "norm_fold": ((ANY, Setting(16384, 16)),),
    "activation": ((ANY, Setting(2048, 4)),),
    "glu": ((ANY, Setting(1024, 4)),),
    # The rows that all programs hold at a time must fit into the cache, from which they are read a second time.
    "cross_entropy": (
        (12288, Setting(2048, 4)),
        (24576, Setting(4096, 8)),
        (65536, Setting(8192, 16)),
        (ANY, Setting(16384, 32)),
    ),
    "embedding": ((ANY, Setting(256, 1, 0, 2)),),
    "adamw": ((ANY, Setting(1024, 4)),),
    "grad_norm": ((ANY, Setting(4096, 16, 4)),),
}
"""By kernel: the settings up to each width, as measured on an H200 in bf16."""


SHARED = 200_000
"""Bytes of a multiprocessor that tiles loaded ahead may take."""


def setting(kernel: str, width: int, loaded: int = 0) -> Setting:
    """That of a kernel for rows of so many elements, for each of which it loads so many bytes."""
    chosen = next(chosen for limit, chosen in SETTINGS[kernel] if width <= limit)
    tile = max(chosen.elements, power(width)) * loaded
    return chosen._replace(stages=max(1, min(chosen.stages, SHARED // tile))) if tile else chosen
