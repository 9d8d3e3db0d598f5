# pyright: basic
"""Causal attention by cuDNN, which adds dq up in an order that changes: for runs that need not repeat bit for bit.

It reads q, k and v where their product left them; its gradients are three tensors, which move into one as they turn.
"""

import torch
from torch import Tensor

from labkit.kernels.launch import is_fast
from labkit.kernels.rope import Rotation, turn
from labkit.kernels.scores import Scores

FEATURES, SHORTEST, MULTIPLE = 128, 2048, 128
"""Heads of so many features, in sequences no shorter and of such lengths, are what it is faster at on an H200."""

_ops = torch.ops.aten


def cudnn_is_faster(features: int, length: int, scores: Scores) -> bool:
    """Whether a run that may be fast lets cuDNN attend, by the features of a head."""
    sees_all = scores.window is None or scores.window >= length
    is_plain = sees_all and scores.softcap is None and scores.sinks is None and scores.slopes is None
    is_long = length >= SHORTEST and length % MULTIPLE == 0
    return is_fast() and is_plain and is_long and features == FEATURES


def forward(q_BTHD: Tensor, k_BTKD: Tensor, v_BTKD: Tensor, scale: float) -> tuple[Tensor, ...]:
    """The output (B, T, H, D), contiguous, and what its backward pass needs."""
    inputs = (x.transpose(1, 2) for x in (q_BTHD, k_BTKD, v_BTKD))
    out, lse, _, _, _, _, seed, offset, _ = _ops._scaled_dot_product_cudnn_attention(
        *inputs, None, True, 0.0, True, False, scale=scale
    )
    return out.transpose(1, 2).contiguous(), lse, seed, offset


def backward(
    inputs: tuple[Tensor, Tensor, Tensor], kept: tuple[Tensor, ...], dout_BTHD: Tensor,
    gradients: tuple[Tensor, Tensor, Tensor], scale: float, rotation: Rotation | None,
) -> None:  # fmt: skip
    """Fills the gradients, those of q and k turned back."""
    out_BTHD, lse, seed, offset = kept
    length = dout_BTHD.shape[1]
    heads_first = (x.transpose(1, 2) for x in (dout_BTHD.contiguous(), *inputs, out_BTHD))
    found = _ops._scaled_dot_product_cudnn_attention_backward(
        *heads_first, lse, seed, offset, None, None, None, length, length, 0.0, True, scale=scale
    )
    for index, (into, gradient) in enumerate(zip(gradients, found, strict=True)):
        if rotation is not None and index < 2:
            turn(gradient.transpose(1, 2), into, rotation, back=True)
        else:
            into.copy_(gradient.transpose(1, 2))
