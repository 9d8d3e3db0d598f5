"""The same models as a careful user writes them in plain PyTorch, with nothing of labkit in them.

As fast as that gets: one product for queries, keys and values, one for gate and up, grouped queries that are never
repeated, a stream in the precision of the weights, rotation and loss in fp32.

B batch, T time, D width, H heads of queries, K heads of keys and values, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.bench.setups import Setup, Sizes

EPS = 1e-6
THETA = 10_000.0


class Llama(nn.Module):
    """The mean loss of targets_BT after tokens_BT."""

    angles: Tensor
    """(T, 1, half the features of a head)."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        sizes = setup.sizes
        self.embedding = nn.Embedding(sizes.vocab_size, sizes.width)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.width, EPS)
        turns_F = THETA ** (-torch.arange(0, sizes.features, 2) / sizes.features)
        self.register_buffer("angles", torch.outer(torch.arange(setup.context), turns_F)[:, None])
        for weight in self.parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        x_BTD: Tensor = self.embedding(tokens_BT)
        turns = self.angles.cos(), self.angles.sin()
        for layer in self.layers:
            x_BTD = layer(x_BTD, *turns)
        logits_BTV = F.linear(self.norm(x_BTD), self.embedding.weight)
        exact = torch.promote_types(logits_BTV.dtype, torch.float32)
        return F.cross_entropy(logits_BTV.flatten(0, 1).to(exact), targets_BT.flatten())


class Layer(nn.Module):
    """Attention and a gated unit, each after its norm."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        mixed = sizes.heads * sizes.features
        self.attention_norm, self.feedforward_norm = (nn.RMSNorm(sizes.width, EPS) for _ in range(2))
        self.qkv = nn.Linear(sizes.width, sizes.packed, bias=False)
        self.output = nn.Linear(mixed, sizes.width, bias=False)
        self.up = nn.Linear(sizes.width, 2 * sizes.d_ff, bias=False)
        self.down = nn.Linear(sizes.d_ff, sizes.width, bias=False)

    def forward(self, x_BTD: Tensor, cos_T1F: Tensor, sin_T1F: Tensor) -> Tensor:
        x_BTD = x_BTD + self.output(self.mixed(self.attention_norm(x_BTD), cos_T1F, sin_T1F))
        gate, up = self.up(self.feedforward_norm(x_BTD)).chunk(2, dim=-1)
        return x_BTD + self.down(F.silu(gate) * up)

    def mixed(self, x_BTD: Tensor, cos_T1F: Tensor, sin_T1F: Tensor) -> Tensor:
        """What the heads take from each other's values, side by side."""
        heads, shared, features = self.sizes.heads, self.sizes.shared, self.sizes.features
        q, k, v = self.qkv(x_BTD).unflatten(-1, (-1, features)).split((heads, shared, shared), dim=2)
        q, k = rotated(q, cos_T1F, sin_T1F), rotated(k, cos_T1F, sin_T1F)
        q_BHTd, k_BKTd, v_BKTd = (x.transpose(1, 2) for x in (q, k, v))
        mixed_BHTd = F.scaled_dot_product_attention(q_BHTd, k_BKTd, v_BKTd, is_causal=True, enable_gqa=heads != shared)
        return mixed_BHTd.transpose(1, 2).flatten(2)


def rotated(x: Tensor, cos_T1F: Tensor, sin_T1F: Tensor) -> Tensor:
    """RoPE of neighbouring features."""
    a, b = x.to(torch.promote_types(x.dtype, torch.float32)).unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack((a * cos_T1F - b * sin_T1F, b * cos_T1F + a * sin_T1F), dim=-1)
    return turned.flatten(-2).to(x.dtype)
