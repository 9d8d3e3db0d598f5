"""The traps that show in what Triton compiles, and from what."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from labkit.bench.checks import Fallen, Skipped, Tried, both_passes

PACKAGES = {"labkit": "labkit.kernels", "liger": "liger_kernel.ops"}
"""Of kernels."""


def compiled(tried: Tried) -> Iterator[tuple[str, Any]]:
    """Every kernel of its library that Triton has compiled, by its name. Raises Skipped for torch, which has none."""
    prefix = PACKAGES.get(tried.provider)
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


FILES = {
    "labkit": {
        **dict.fromkeys(("rms_norm", "layer_norm", "add_rms_norm"), "norm"),
        "swiglu": "glu",
        "attention": "attention_kernels",
    },
    "liger": {"add_rms_norm": "fused_add_rms_norm", "linear_cross_entropy": "fused_linear_cross_entropy"},
}
"""Where the kernels of an operation stand, if not in a file of its name."""


def sources(tried: Tried) -> None:
    """No kernel is written with what Triton gives up, or is tuned by being run again, perhaps on its own output."""
    package = PACKAGES.get(tried.provider)
    if package is None:
        raise Skipped("not made with Triton")
    name = FILES[tried.provider].get(tried.name, tried.name)
    text = (Path(sys.modules[package].__path__[0]) / f"{name}.py").read_text()
    if found := [word for word in ("make_block_ptr", "triton.autotune", "@autotune") if word in text]:
        raise Fallen(f"{', '.join(found)} in {name}.py")
