"""Tensors in a file, as safetensors."""

import errno
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor


def write_tensors(tensors: Mapping[str, Tensor], file: Path, about: dict[str, str] | None = None) -> None:
    """Write a file of safetensors. Raises OSError where it cannot be."""
    try:
        file.touch()
        mode = file.stat().st_mode
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file, about)
        file.chmod(mode)  # safetensors leaves a file that nobody but its owner can read
    except SafetensorError as error:
        raise OSError(errno.EIO, str(error), str(file)) from error
