"""A model's buffers: what it keeps beside its weights, such as a running mean, which training may change.

Checkpoints have them as ``buffers/layers.0.attention_norm.mean``. Those that a module makes again by itself are
registered with ``persistent=False``, and are not kept.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

PREFIX = "buffers/"


def buffers(model: nn.Module) -> dict[str, Tensor]:
    """What it keeps, by name: the real parts and the imaginary ones where a buffer is complex."""
    weights = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    state = model.state_dict(keep_vars=True)
    kept = {name: value for name, value in state.items() if name not in weights and isinstance(value, Tensor)}
    return {name: torch.view_as_real(value) if value.is_complex() else value for name, value in kept.items()}


def written(model: nn.Module) -> dict[str, Tensor]:
    """The same for a file of tensors, in which no two share memory."""
    return {PREFIX + name: value.clone() for name, value in buffers(model).items()}


def restore(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put what `written` gave into a live model; a file of before buffers were kept has none."""
    for name, value in buffers(model).items():
        if (kept := tensors.get(PREFIX + name)) is not None:
            value.copy_(kept)
