"""A decoder-only transformer from its spec, and what it costs.

B batch, T time, D width (d_model), V vocabulary.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from labkit.components import Attention, Dropout, FeedForward, Head, Init, Norm, Place, Position, Residual
from labkit.components.dropout import KeyedDropout, place_sites
from labkit.components.embedding import TokenEmbedding
from labkit.components.parameters import Role, draw, parts_of
from labkit.components.residual import Branches, Stream
from labkit.spec import Mistake, Size, Spec

IGNORED = -100
"""A target that is not scored."""


class ModelSpec(Spec):
    """The architecture: sizes, and one variant of each family."""

    d_model: Size
    """Features of a token, the width of the residual stream."""
    n_layers: Annotated[int, Field(gt=0, le=4096)]
    context: Annotated[int, Field(ge=2, le=2**24)]
    """The length of the training sequences, in tokens."""
    norm: Norm
    residual: Residual
    attention: Attention
    feedforward: FeedForward
    position: Position
    head: Head
    init: Init
    dropout: Dropout = Dropout()

    @property
    def reach(self) -> int | None:
        """The longest sequence that the model can read, in tokens; None: any."""
        return self.position.reach(self.context)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if fault := self.attention.fault(self.d_model):
            raise ValueError(f"attention: {fault}")
        if fault := self.feedforward.fault(self.d_model):
            raise ValueError(f"feedforward: {fault}")
        if fault := self.position.fault(self.attention.width_of_head(self.d_model)):
            raise ValueError(f"position: {fault}")
        if self.reach is not None and self.reach < self.context:
            kind = self.position.as_json()["kind"]
            raise ValueError(f"position: {kind} reaches {self.reach} tokens, fewer than context {self.context}")
        return self


class Block(Branches):
    """One layer."""

    def __init__(self, spec: ModelSpec, place: Place) -> None:
        width = spec.d_model
        super().__init__(
            (spec.norm.build(width, place), spec.norm.build(width, place)),
            spec.attention.build(width, place, spec.position, spec.dropout.attention),
            spec.feedforward.build(width, place),
            spec.dropout.residual,
        )
        self.residual = spec.residual

    def forward(self, value_BTD: Tensor, *pending_BTD: Tensor) -> tuple[Tensor, ...]:
        """The stream in, the stream out: its value, and the branches not yet added to it."""
        stream = Stream(value_BTD, *pending_BTD)
        self.residual.flow(self, stream)
        return stream.value, *stream.pending


class Transformer(nn.Module):
    """Tokens to logits. Build it under ``torch.device(...)``; its matrices have no values before `initialize`.

    Raises Mistake if a user's module holds a matrix that does not say its role.
    """

    def __init__(self, spec: ModelSpec, vocab_size: int) -> None:
        super().__init__()
        self.spec, self.vocab_size = spec, vocab_size
        self.checkpointing = False
        """Whether each layer's activations are computed again in the backward pass: the same numbers, less memory."""
        place = Place(0, spec.n_layers, spec.context)
        end = Place(spec.n_layers, spec.n_layers, spec.context)
        self.embedding = TokenEmbedding(vocab_size, spec.d_model)
        self.position = spec.position.build(spec.d_model, place)
        self.embedding_dropout = KeyedDropout(spec.dropout.embedding)
        self.layers = nn.ModuleList(Block(spec, Place(i, spec.n_layers, spec.context)) for i in range(spec.n_layers))
        self.norm = spec.norm.build(spec.d_model, end) if spec.residual.norms_at_the_end else nn.Identity()
        self.head = spec.head.build(vocab_size, spec.d_model)
        self.dropout_key = torch.zeros(3, dtype=torch.int64)
        place_sites(self, self.dropout_key)
        for name, stored in self.named_parameters():
            parts_of(name, stored)

    def initialize(self, seed: int) -> None:
        """Draw the initial values, each logical matrix by its own key, where the model lives."""
        draw(self, seed, lambda part: self.spec.init.scale(part, self.spec.n_layers))

    def keyed(self, seed: int, step: int, row: int) -> None:
        """Set what the dropout masks depend on; `row` is the place of the first sequence in the global batch."""
        for slot, value in zip(self.dropout_key, (seed, step, row), strict=True):
            slot.fill_(value)  # copying from the host would wait for the device

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """The logits_BTV of each token's successor."""
        stream = (self.embedding_dropout(self.position(self.embedding(tokens_BT))),)
        for layer in self.layers:
            stream = self._through(layer, stream)
        (hidden_BTD,) = Stream(*stream).normed(self.norm)
        return self.head(hidden_BTD, self.embedding.weight)

    def losses(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        """-ln p(target) of every token, in nats and fp32 or better; 0 where the target is -100."""
        logits_BTV = self(tokens_BT)
        logits_NV = logits_BTV.flatten(0, 1).to(torch.promote_types(logits_BTV.dtype, torch.float32))
        losses_N = F.cross_entropy(logits_NV, targets_BT.flatten(), reduction="none", ignore_index=IGNORED)
        return losses_N.view_as(targets_BT)

    def _through(self, layer: nn.Module, stream: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if self.checkpointing and torch.is_grad_enabled():
            kept: Any = checkpoint(layer, *stream, use_reentrant=False, preserve_rng_state=False)
            return kept
        return layer(*stream)


@dataclass(frozen=True)
class Costs:
    """What a model takes. FLOPs count matrix products and attention, forward and backward, a token at full context."""

    params: int
    non_embedding: int
    """Without the embeddings of tokens and positions, and without an untied head."""
    flops_per_token: int
    table: tuple[tuple[str, int, int], ...]
    """(component, parameters, FLOPs per token), the layers taken together."""


def costs(spec: ModelSpec, vocab_size: int) -> Costs:
    """Count a model on the meta device, where it takes no memory; the backward pass does twice the forward's work."""
    hashable: Any = spec
    return _costs(hashable, vocab_size)


@lru_cache(maxsize=256)
def _costs(spec: ModelSpec, vocab_size: int) -> Costs:
    with torch.device("meta"):
        model = Transformer(spec, vocab_size)
    rows: dict[str, list[int]] = {}
    for component, module in _leaves(model):
        row = rows.setdefault(component, [0, 0])
        row[0] += sum(stored.numel() for stored in module.parameters(recurse=False))
        row[1] += 3 * _flops(component, module, spec.context)
    params = sum(row[0] for row in rows.values())
    assert params == sum(stored.numel() for stored in model.parameters())
    outside = sum(rows.get(name, [0])[0] for name in ("embedding", "position", "head"))
    table = tuple((name, count, flops) for name, (count, flops) in rows.items() if count or flops)
    return Costs(params, params - outside, sum(row[1] for row in rows.values()), table)


def _flops(component: str, module: Any, length: int) -> int:
    """Of the forward pass, per token; a lookup takes none. Raises Mistake for a matrix that nobody counts."""
    if hasattr(module, "flops"):
        return module.flops(length)
    for name, stored in module.named_parameters(recurse=False):
        if any(part.role.is_matrix and part.role is not Role.EMBEDDING for part in parts_of(name, stored)):
            raise Mistake(
                f"model.{component}: {type(module).__name__} holds the matrix {name!r} but has no flops. Make it with "
                f"labkit's Linear, or write  def flops(self, length: int) -> int: return 2 * self.{name}.numel()"
            )
    return 0


def _leaves(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Each module, and which component of the model it belongs to: ``embedding``, ``layers.attention``, …"""
    for name, module in model.named_modules():
        steps = [step for step in name.split(".") if not step.isdigit()]
        yield ".".join(steps[:2] if steps[0] == "layers" else steps[:1]) or "model", module
