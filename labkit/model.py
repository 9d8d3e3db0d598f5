"""A decoder-only transformer from its spec, and what it costs.

B batch, T time, D width (d_model), V vocabulary.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Self

import torch
from pydantic import Field, ValidationError, model_validator
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from labkit.components import (
    Attention,
    Dropout,
    Embedding,
    FeedForward,
    Head,
    Init,
    Loss,
    Norm,
    Parametrization,
    Place,
    Position,
    Residual,
)
from labkit.components.auxiliary import auxiliaries
from labkit.components.branches import Branches, Stream, scales
from labkit.components.dropout import KeyedDropout, place_sites
from labkit.components.embedding import head_losses
from labkit.components.loss import IGNORED as IGNORED
from labkit.components.parameters import Part, Role, draw, logical_parts, parts_of
from labkit.components.parametrization import Standard
from labkit.components.pattern import Pattern, flat, settled
from labkit.components.width import Width, resized
from labkit.faults import explain
from labkit.spec import Mistake, Spec

LAYERED = ("norm", "residual", "attention", "feedforward", "position")
"""What a pattern may change."""


class ModelSpec(Spec):
    """The architecture: sizes, and one variant of each family."""

    d_model: Width
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
    embedding: Embedding = Embedding()
    loss: Loss = Loss()
    parametrization: Parametrization = Standard()
    pattern: Pattern = ()
    """Changes to a layer, cycled over the layers: [{"attention.window": 512}, {}] is a sliding window in every other,
    [{}, {}, {}, {"position": "none"}] is NoPE in every fourth. Layers may differ in norm, residual, attention,
    feedforward and position."""

    @property
    def layers(self) -> tuple["ModelSpec", ...]:
        """What each layer is built from."""
        cycle = [self._changed(index, entry) for index, entry in enumerate(self.pattern)] or [self]
        return tuple(cycle[layer % len(cycle)] for layer in range(self.n_layers))

    @property
    def reach(self) -> int | None:
        """The longest sequence that the model can read, in tokens; None: any."""
        reaches = [layer.position.reach(self.context) for layer in self.layers]
        return min((reach for reach in reaches if reach is not None), default=None)

    def at_width(self, width: int) -> Self:
        """The model with another d_model and in proportion all sizes that grow with it. Raises Mistake."""
        ratio, axes = Fraction(width, self.d_model), self.parametrization.axes
        try:
            entries = [layer.patched(dict(resized(layer, ratio, axes))) for layer in self.layers[: len(self.pattern)]]
            pattern = tuple(map(settled, self.pattern, entries))
            return self.patched({**dict(resized(self, ratio, axes)), "pattern": pattern})
        except ValidationError as error:
            raise Mistake(f"model at d_model {width}: {explain(error, ModelSpec)}") from error
        except Mistake as mistake:
            raise Mistake(f"model at d_model {width}: {mistake}") from mistake

    def idle(self) -> Mapping[str, str]:
        if self.pattern:
            return self._overridden()
        found = {f"residual.{name}": why for name, why in self.residual.idle_with(self.norm).items()}
        norm, position = self.attention.qk_norm, self.position
        if not position.turns:
            found["attention.qk_norm_place"] = f"where position {position.label} turns nothing; leave it out"
        elif norm.is_round and position.keeps_lengths:
            found["attention.qk_norm_place"] = f"where qk_norm {norm.label} has no gain a feature; leave it out"
        return found

    def _overridden(self) -> dict[str, str]:
        """What every layer has its own of; the component itself cannot be left out, nor the norm after the layers."""
        first, *others = ({path for path, _ in flat(entry)} for entry in self.pattern)
        common = sorted(path for path in first.intersection(*others) if "." in path and not path.startswith("norm."))
        return {path: "where every entry of pattern gives its own; leave it out" for path in common if has(self, path)}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if fault := self.attention.fault(self.d_model):
            raise ValueError(f"attention: {fault}")
        if fault := self.residual.fault(self.norm):
            raise ValueError(f"residual: {fault}")
        if fault := self.feedforward.fault(self.d_model):
            raise ValueError(f"feedforward: {fault}")
        if fault := self.position.fault(self.attention.width_of_head(self.d_model)):
            raise ValueError(f"position: {fault}")
        if self.reach is not None and self.reach < self.context:
            kind = self.position.as_json()["kind"]
            raise ValueError(f"position: {kind} reaches {self.reach} tokens, fewer than context {self.context}")
        if len(self.pattern) > self.n_layers:
            raise ValueError(f"pattern: {len(self.pattern)} entries for n_layers {self.n_layers}; leave out the last")
        object.__setattr__(self, "pattern", tuple(map(settled, self.pattern, self.layers)))
        return self

    def _changed(self, index: int, entry: dict[str, Any]) -> "ModelSpec":
        changes = dict(flat(entry))
        for path in changes:
            if path.split(".")[0] not in LAYERED:
                raise ValueError(f"pattern.{index}.{path}: layers may differ in {', '.join(LAYERED)}")
        try:
            layer = self.patched({**changes, "pattern": ()})
        except ValidationError as error:
            raise ValueError(f"pattern.{index}: {explain(error, ModelSpec)}") from error
        except Mistake as mistake:
            raise ValueError(f"pattern.{index}.{mistake}") from mistake
        if layer.position != self.position and (is_added(layer.position) or is_added(self.position)):
            raise ValueError(
                f"pattern.{index}.position: {layer.position.label} instead of {self.position.label}, but what is added "
                f"to the embeddings holds for all layers"
            )
        return layer


def is_added(position: Position) -> bool:
    """Whether a position encoding acts on the embeddings, which all layers share."""
    return type(position).build is not Position.build


def has(spec: Spec, path: str) -> bool:
    """Whether a spec has a field at a dotted path."""
    at: Any = spec
    for step in path.split("."):
        if not isinstance(at, Spec) or step not in type(at).model_fields:
            return False
        at = getattr(at, step)
    return True


class Block(Branches):
    """One layer."""

    def __init__(self, spec: ModelSpec, place: Place) -> None:
        width, residual = spec.d_model, spec.residual
        super().__init__(
            place,
            {name: spec.norm.build(width, place) for name in residual.norms},
            spec.attention.build(width, place, spec.position, spec.dropout.attention),
            spec.feedforward.build(width, place),
            scales(residual.scale, width, place),
            dropout=spec.dropout.residual,
        )
        self.residual = residual
        self.auxiliaries = auxiliaries(self)

    def forward(self, value_BTD: Tensor, *pending_BTD: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The stream in; out its value with the branches not yet added to it, and losses_BT of the layer's own."""
        stream = Stream(value_BTD, *pending_BTD)
        self.residual.flow(self, stream)
        left = tuple(loss_BT for module in self.auxiliaries for loss_BT in module.take())
        return (stream.value, *stream.pending), left


class Transformer(nn.Module):
    """Tokens to logits. Build it under ``torch.device(...)``; its matrices have no values before `initialize`.

    Raises Mistake if a user's module holds a matrix that does not say its role.
    """

    def __init__(self, spec: ModelSpec, vocab_size: int) -> None:
        super().__init__()
        self.spec, self.vocab_size = spec, vocab_size
        self.checkpointing = False
        """Whether each layer's activations are computed again in the backward pass: the same numbers, less memory."""
        width, layers = spec.d_model, spec.layers
        self.start, self.end = self._place(0), self._place(spec.n_layers)
        self.embedding = spec.embedding.build(vocab_size, width, spec.parametrization.base(width))
        self.embedding_norm = spec.embedding.norm.build(width, self.start)
        self.position = spec.position.build(width, self.start)
        self.embedding_dropout = KeyedDropout(spec.dropout.embedding)
        self.layers = nn.ModuleList(Block(layer, self._place(index)) for index, layer in enumerate(layers))
        self.norm = spec.norm.build(width, self.end) if layers[-1].residual.norms_at_the_end else nn.Identity()
        self.readout = spec.parametrization.readout(width)
        self.head = spec.head.build(vocab_size, width)
        self.dropout_key = torch.zeros(3, dtype=torch.int64)
        place_sites(self, self.dropout_key)
        for name, stored in self.named_parameters():
            parts_of(name, stored)
        spec.parametrization.settle(self, width, self._wider)

    def _place(self, layer: int) -> Place:
        spec = self.spec
        return Place(layer, spec.n_layers, spec.context, spec.parametrization.head_growth(spec.d_model))

    def _wider(self) -> "Transformer":
        with torch.device("meta"):
            wider = self.spec.at_width(2 * self.spec.d_model)
            return Transformer(wider.patched({"parametrization": Standard()}), self.vocab_size)

    def initialize(self, seed: int) -> None:
        """Draw the initial values, each logical matrix by its own key, where the model lives."""
        for under, module, spread in self._spreads():
            draw(module, seed, spread, under=under, cutoff=self.spec.init.cutoff)

    def spreads(self) -> dict[str, float]:
        """The standard deviation of the initial values of every logical matrix, by name."""
        return {
            f"{under}.{name}": spread(part)
            for under, module, spread in self._spreads()
            for name, part in logical_parts(module).items()
            if part.role.is_matrix
        }

    def _spreads(self) -> Iterator[tuple[str, nn.Module, Callable[[Part], float]]]:
        """Every module at its place, with what its matrices' initial values spread by."""
        for name, module in self.named_children():
            if module is not self.layers:
                yield name, module, self._spread_at(self.start)
        for index, layer in enumerate(self.layers):
            yield f"layers.{index}", layer, self._spread_in(layer)

    def _spread_at(self, place: Place) -> Callable[[Part], float]:
        init, base = self.spec.init, self.spec.parametrization.base(self.spec.d_model)
        return lambda part: init.scale(part.at_base, place, base) * part.growth.spread

    def _spread_in(self, layer: Any) -> Callable[[Part], float]:
        spread = self._spread_at(layer.place)
        return lambda part: spread(part) * layer.residual.shrink(part, layer.place)

    def keyed_by(self, key_3: Tensor) -> None:
        """Let the dropout masks depend on what stands there: seed, step, place of the first row in the global batch."""
        self.dropout_key.set_(key_3)  # pyright: ignore[reportArgumentType]

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """The logits_BTV of each token's successor."""
        hidden_BTD, _ = self._hidden(tokens_BT)
        return self.head(hidden_BTD, self.embedding.weight)

    def losses(self, tokens_BT: Tensor, targets_BT: Tensor, scale: float = 1.0) -> Tensor:
        """-ln p(target) of every token, in nats and fp32 or better; 0 where the target is -100.

        In training mode it is what is minimised: with smoothed targets, z-loss and the losses of the layers' own,
        where the spec has them. All are times `scale`, which costs nothing here: 1 / targets and a sum make a mean.
        """
        hidden_BTD, left = self._hidden(tokens_BT)
        options = self.spec.loss.trained if self.training else {}
        given = hidden_BTD.flatten(0, 1), self.embedding.weight, targets_BT.flatten()
        losses_BT = head_losses(self.head, *given, scale=scale, **options).view_as(targets_BT)
        for loss_BT in left:
            losses_BT = losses_BT + loss_BT * (scale * (targets_BT != IGNORED))
        return losses_BT

    def _hidden(self, tokens_BT: Tensor) -> tuple[Tensor, list[Tensor]]:
        """What the head reads, and the losses that the layers left."""
        embedded_BTD = self.position(self.embedding_norm(self.embedding(tokens_BT)))
        stream: tuple[Tensor, ...] = (self.embedding_dropout(embedded_BTD),)
        losses: list[Tensor] = []
        for layer in self.layers:
            stream, left = self._through(layer, stream)
            losses += left
        (hidden_BTD,) = Stream(*stream).normed(self.norm)
        return self.readout(hidden_BTD), losses

    def _through(self, layer: nn.Module, stream: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
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
    active: int
    """Those that compute each token: of a mixture's experts, as many as are chosen."""
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
    rows: dict[str, list[Fraction]] = {}
    for component, module, share in _leaves(model):
        row = rows.setdefault(component, [Fraction(0)] * 3)
        stored = sum(parameter.numel() for parameter in module.parameters(recurse=False))
        flops = 3 * _flops(component, module, spec.context)
        rows[component] = [row[0] + stored, row[1] + stored * share, row[2] + flops * share]
    params, active, flops = (int(sum(column)) for column in zip(*rows.values(), strict=True))
    assert params == sum(stored.numel() for stored in model.parameters())
    outside = sum(int(rows[name][0]) for name in ("embedding", "position", "head") if name in rows)
    table = tuple((name, int(row[0]), int(row[2])) for name, row in rows.items() if row[0] or row[2])
    return Costs(params, params - outside, active, flops, table)


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


def _leaves(model: nn.Module) -> Iterator[tuple[str, Any, Fraction]]:
    """Each module, which component of the model it belongs to (``layers.attention``), and the share of the tokens
    that it computes.
    """
    shares = {"": Fraction(1)}
    for name, module in model.named_modules():
        shares[name] = shares[name.rpartition(".")[0]] * getattr(module, "active_share", 1)
        steps = [step for step in name.split(".") if not step.isdigit()]
        yield ".".join(steps[:2] if steps[0] == "layers" else steps[:1]) or "model", module, shares[name]
