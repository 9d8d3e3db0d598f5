"""The traps that show in what Triton compiles, and from what."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from labkit.bench.checks import Fallen, Skipped, Tried, both_passes


def compiled(tried: Tried) -> Iterator[tuple[str, Any]]:
    """Every kernel of its library that Triton has compiled, by its name. Raises Skipped for torch, which has none."""
    prefix = {"labkit": "labkit.kernels", "liger": "liger_kernel.ops"}.get(tried.provider)
    if prefix is None:
        raise Skipped("not made with Triton")
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(prefix)]
    kernels = {id(value): value for module in modules for value in vars(module).values()}
    for kernel in kernels.values():
        caches = getattr(kernel, "device_caches", None)
        for cache in caches.values() if isinstance(caches, dict) else ():
            for variant in cache[0].values():
                yield kernel.fn.__name__, variant


def doubles(tried: Tried) -> None:
    """No kernel of it computes in fp64, which a Python float can bring in: as compiled for fp16, which is new."""
    before = {id(variant) for _, variant in compiled(tried)}
    both_passes(tried, tried.draw(64, 96, torch.float16))
    for name, variant in compiled(tried):
        if id(variant) not in before and ".f64" in variant.asm["ptx"]:
            raise Fallen(f"{name} computes in fp64")


def new_shapes(tried: Tried) -> None:
    """Other numbers of rows compile nothing new."""
    for rows in (128, 127):  # divisible by 16 or not is another kernel, to Triton
        both_passes(tried, tried.draw(rows, 64, torch.bfloat16))
    before = {id(variant) for _, variant in compiled(tried)}
    for rows in (256, 1024, 129, 33):
        both_passes(tried, tried.draw(rows, 64, torch.bfloat16))
    new = [name for name, variant in compiled(tried) if id(variant) not in before]
    if new:
        raise Fallen(f"compiled again: {', '.join(sorted(set(new)))}, {len(new)} times for 4 numbers of rows")


def sources(tried: Tried) -> None:
    """No kernel is written with what Triton gives up, or is tuned by being run again on its own output."""
    package = {"labkit": "labkit.kernels", "liger": "liger_kernel.ops"}.get(tried.provider)
    if package is None:
        raise Skipped("not made with Triton")
    path = Path(sys.modules[package].__path__[0])
    words = ("make_block_ptr", "triton.autotune")
    found = {
        f"{word} in {file.relative_to(path)}"
        for file in path.rglob("*.py")
        for word in words
        if word in file.read_text()
    }
    if found:
        raise Fallen(", ".join(sorted(found)[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else ""))
