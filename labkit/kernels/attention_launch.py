# pyright: basic
"""How the attention kernels are launched: descriptors, grids, and the tile sizes that an H200 likes best."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labkit.kernels import attention_kernels as kernels
from labkit.kernels.launch import on, power, team
from labkit.kernels.rope import Rotation
from labkit.kernels.scores import Scores

_descriptor: Any = None
try:
    from triton.tools import tensor_descriptor
except ImportError:  # where there is no Triton, nothing is launched
    pass
else:
    _descriptor = tensor_descriptor.TensorDescriptor

LOG2E = 1.4426950408889634


class Tile(NamedTuple):
    """Rows of queries and of keys, warps, stages of the pipeline, heads at work together, registers of a thread."""

    M: int
    N: int
    warps: int
    stages: int
    span: int
    registers: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Of one launch."""
        cap = {} if self.registers is None else {"maxnreg": self.registers}
        return {"M": self.M, "N": self.N, "span": self.span, "num_stages": self.stages, **team(self.warps), **cap}


class Tiles(NamedTuple):
    """One for each kernel."""

    forward: Tile
    query: Tile
    key: Tile


HOPPER = {
    (32, 2): Tiles(Tile(64, 64, 4, 3, 128), Tile(64, 64, 4, 3, 128, 168), Tile(64, 64, 4, 2, 64, 128)),
    (64, 2): Tiles(Tile(64, 64, 4, 2, 64), Tile(64, 64, 4, 2, 64, 168), Tile(64, 64, 4, 2, 16, 168)),
    (128, 2): Tiles(Tile(128, 64, 4, 2, 32), Tile(128, 32, 8, 3, 32, 128), Tile(64, 64, 4, 2, 8)),
    (256, 2): Tiles(Tile(128, 64, 8, 2, 16), Tile(64, 64, 4, 2, 16), Tile(64, 64, 8, 2, 8)),
    (64, 4): Tiles(Tile(64, 32, 4, 1, 64), Tile(64, 32, 4, 1, 64), Tile(32, 64, 4, 1, 16)),
    (128, 4): Tiles(Tile(128, 32, 8, 2, 64), Tile(64, 32, 4, 1, 64), Tile(32, 64, 8, 1, 16)),
}
"""By the features of a head, rounded up, and the bytes of one; measured on an H200."""
ELSEWHERE = {
    (128, 2): Tiles(Tile(64, 32, 4, 2, 32), Tile(64, 32, 4, 2, 32), Tile(32, 64, 4, 2, 32)),
    (64, 4): Tiles(Tile(32, 32, 4, 1, 32), Tile(32, 32, 4, 1, 32), Tile(32, 32, 4, 1, 32)),
}
"""Small enough for any GPU of compute capability 8 or more; not measured."""


def tiles(features: int, x: Tensor) -> Tiles | None:
    """For heads of so many features, of x's precision, where x lives."""
    is_hopper = not x.is_cuda or torch.cuda.get_device_capability(x.device) == (9, 0)
    table = HOPPER if is_hopper else ELSEWHERE
    sizes = [size for size in table if size[0] >= features and size[1] >= x.element_size()]
    return table[min(sizes, key=lambda size: size[::-1])] if sizes else None


def chosen(q_BTHD: Tensor, v_BTKE: Tensor) -> Tiles:
    """Of heads that are supported."""
    found = tiles(max(q_BTHD.shape[3], v_BTKE.shape[3]), q_BTHD)
    assert found is not None
    return found


def unsupported(q_BTHD: Tensor, k_BTKD: Tensor, v_BTKE: Tensor, scores: Scores) -> str | None:
    """Why the kernels cannot compute this, though the tensors are where and what they should be; or None."""
    if len(dtypes := {x.dtype for x in (q_BTHD, k_BTKD, v_BTKE)}) > 1:
        return f"q, k and v are of {len(dtypes)} precisions"
    if q_BTHD.shape[:2] != k_BTKD.shape[:2]:
        return f"{tuple(q_BTHD.shape[:2])} queries do not stand where {tuple(k_BTKD.shape[:2])} keys do"
    for features in (q_BTHD.shape[3], v_BTKE.shape[3]):
        if features * q_BTHD.element_size() % 16:
            return f"heads of {features} features are not a multiple of 16 bytes"
        if tiles(features, q_BTHD) is None:
            return f"heads of {features} features are too wide"
    return None if scores.scale > 0 else f"scores are multiplied by {scores.scale:g}, which is not above 0"


def readable(x_BTHD: Tensor) -> Tensor:
    """x, or a copy where no descriptor can point at it: it wants multiples of 16 bytes, and features side by side."""
    strides = [x_BTHD.stride(axis) * x_BTHD.element_size() for axis in range(3) if x_BTHD.shape[axis] > 1]
    is_aligned = x_BTHD.data_ptr() % 16 == 0 and all(stride > 0 and stride % 16 == 0 for stride in strides)
    return x_BTHD if is_aligned and x_BTHD.stride(3) == 1 else x_BTHD.clone(memory_format=torch.contiguous_format)


def turns_along(rotation: Rotation, features: int) -> bool:
    """Whether the gradients of q and k can be turned back as they are written.

    Pairs must meet by halving the tile, and a descriptor must be able to point at the angles.
    """
    rotated, rows = 2 * rotation.cos.shape[1], (rotation.cos, rotation.sin)
    is_aligned = rotated % 8 == 0 and all(x.data_ptr() % 16 == 0 and x.is_contiguous() for x in rows)
    return is_aligned and (rotation.interleaved or padded(features) % rotated == 0)


def padded(features: int) -> int:
    """The width of a tile."""
    return max(16, power(features))


def room(length: int) -> int:
    """Rows of each head in lse and delta."""
    return -(-length // kernels.ROOM.value) * kernels.ROOM.value


def pointed(tensors: Iterable[Tensor], rows: Iterable[int]) -> Iterator[Any]:
    """Descriptors of each x_BTHD as (B, heads, T, features), in tiles of so many rows of one head."""
    for x_BTHD, tile in zip(tensors, rows, strict=True):
        batch, length, heads, features = x_BTHD.shape
        strides = [x_BTHD.stride(axis) if x_BTHD.shape[axis] > 1 else 16 for axis in (0, 2, 1)]
        yield _descriptor(x_BTHD, [batch, heads, length, features], [*strides, 1], [1, 1, tile, padded(features)])


def angles(turned: Rotation | None, rows: int, features: int, nothing: Tensor) -> tuple[object, object]:
    """Descriptors of cosines and sines, in tiles as wide as the pairs of a tile of q or k that may turn."""
    if turned is None:
        return nothing, nothing
    pairs = turned.cos.shape[1]
    tile = [rows, padded(features) // 2 if turned.interleaved else pairs]
    cos, sin = (_descriptor(x, list(x.shape), [pairs, 1], tile) for x in turned[:2])
    return cos, sin


def told(q_BTHD: Tensor, k_BTKD: Tensor, v_BTKE: Tensor, scores: Scores) -> dict[str, Any]:
    """What every kernel is told."""
    length, softcap, window = q_BTHD.shape[1], scores.softcap, scores.window
    is_windowed = window is not None and window < length
    return {
        "group": q_BTHD.shape[2] // k_BTKD.shape[2],
        "length": length,
        "window": window if is_windowed else length,
        "inner": 0.0 if softcap is None else 2.0 * LOG2E * scores.scale / softcap,
        "outer": (scores.scale if softcap is None else softcap) * LOG2E,
        "BLOCK_D": padded(q_BTHD.shape[3]),
        "BLOCK_E": padded(v_BTKE.shape[3]),
        "CAPPED": softcap is not None,
        "WINDOWED": is_windowed,
        "SLOPED": scores.slopes is not None,
        "PRECISION": "tf32x3" if q_BTHD.dtype == torch.float32 else "tf32",
    }


def forward(q_BTHD: Tensor, k_BTKD: Tensor, v_BTKE: Tensor, out_BTHE: Tensor, scores: Scores) -> Tensor:
    """Fills `out`; gives log2 Σ exp2 of the logits of every query, (B, H, T or more) in fp32."""
    batch, length, heads, _ = q_BTHD.shape
    tile = chosen(q_BTHD, v_BTKE).forward
    lse = torch.empty(batch, heads, room(length), dtype=torch.float32, device=q_BTHD.device)
    with on(lse.device):
        kernels.forward_kernel[(room(length) // tile.M * batch * heads,)](
            *pointed((q_BTHD, k_BTKD, v_BTKE, out_BTHE), (tile.M, tile.N, tile.N, tile.M)),
            lse,
            lse if scores.sinks is None else scores.sinks,
            lse if scores.slopes is None else scores.slopes,
            pairs=batch * heads,
            H=heads,
            SINKS=scores.sinks is not None,
            **told(q_BTHD, k_BTKD, v_BTKE, scores),
            **tile.settings,
        )
    return lse


Three = tuple[Tensor, Tensor, Tensor]


def backward(
    inputs: Three,
    out_BTHE: Tensor,
    dout_BTHE: Tensor,
    lse: Tensor,
    gradients: Three,
    scores: Scores,
    turned: Rotation | None,
) -> Tensor | None:
    """Fills the gradients, those of q and k as before their rotation by `turned`; gives that of the sinks.

    `out` and `dout` are contiguous.
    """
    (batch, length, heads, features), shared = inputs[0].shape, inputs[1].shape[2]
    query, key = chosen(inputs[0], inputs[2])[1:]
    common = told(*inputs, scores) | {
        "scale": scores.scale,
        "ROTATED": 0 if turned is None else 2 * turned.cos.shape[1],
        "INTERLEAVED": turned is not None and turned.interleaved,
    }
    slopes = lse if scores.slopes is None else scores.slopes
    delta, blocks = torch.empty_like(lse), lse.shape[2] // query.M
    shares = None if scores.sinks is None else lse.new_empty(batch, heads, blocks)
    with on(lse.device):
        kernels.query_kernel[(blocks * batch * heads,)](
            *pointed((*inputs, gradients[0]), (query.M, query.N, query.N, query.M)),
            out_BTHE,
            dout_BTHE,
            lse,
            delta,
            lse if scores.sinks is None else scores.sinks,
            lse if shares is None else shares,
            slopes,
            *angles(turned, query.M, features, lse),
            pairs=batch * heads,
            H=heads,
            E=out_BTHE.shape[3],
            SINKS=shares is not None,
            **common,
            **query.settings,
        )
        kernels.key_kernel[(-(-length // key.N) * batch * shared,)](
            *pointed((*inputs, *gradients[1:], dout_BTHE), (key.M, key.N, key.N, key.N, key.N, key.M)),
            lse,
            delta,
            slopes,
            *angles(turned, key.N, features, lse),
            pairs=batch * shared,
            K=shared,
            **common,
            **key.settings,
        )
    return None if shares is None else shares.sum((0, 2))
