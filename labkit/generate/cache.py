"""The keys and values of the tokens read so far, so that each further token costs the work of one.

B batch, T new tokens, S tokens seen, D width, V vocabulary, K heads of keys, d and e features of a key and a value.
"""

import inspect
import math
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from labkit.components.gather import AttentionModule
from labkit.components.mixing import Mixing
from labkit.model import Transformer
from labkit.spec import Mistake

REMEDY = "generate without the cache (--no-cache)"
FAR = 2**31
"""Tokens: more than anybody generates, and an index that every slice takes."""


class Kept:
    """What one attention keeps, in tensors that are made once; of a window, at most twice its length."""

    def __init__(self, capacity: int, window: float) -> None:
        """`capacity` tokens will be read in all; an infinite `window` is none."""
        self.window = window
        self.size, self.length = int(min(capacity, 2 * window)), 0
        self.buffers: tuple[Tensor, ...] = ()

    def extended(self, k_BKTd: Tensor, v_BKTe: Tensor) -> tuple[Tensor, Tensor, int]:
        """k_BKSd and v_BKSe of all that the new tokens may see, and how many of the S are older than they."""
        fresh, new = (k_BKTd, v_BKTe), k_BKTd.shape[2]
        self.buffers = self.buffers or tuple(x.new_empty(*x.shape[:2], self.size, x.shape[3]) for x in fresh)
        older = int(min(self.length, self.window - 1))
        start, end = self.length - older, self.length + new
        if end > self.size:
            k_BKSd, v_BKSe = self._moved(fresh, start)
        else:
            for buffer, x in zip(self.buffers, fresh, strict=True):
                buffer[:, :, self.length : end] = x
            self.length = end
            k_BKSd, v_BKSe = (buffer[:, :, start:end] for buffer in self.buffers)
        return k_BKSd, v_BKSe, older

    def _moved(self, fresh: Iterable[Tensor], start: int) -> list[Tensor]:
        """Where there is no room: what later tokens can still see moves to the front."""
        pairs = zip(self.buffers, fresh, strict=True)
        seen = [torch.cat((buffer[:, :, start : self.length], x), dim=2) for buffer, x in pairs]
        length = seen[0].shape[2]
        self.length = int(min(self.window - 1, length))
        for buffer, x in zip(self.buffers, seen, strict=True):
            buffer[:, :, : self.length] = x[:, :, length - self.length :]
        return seen


class Clock:
    """How many tokens were read."""

    def __init__(self) -> None:
        self.read = 0


class Remembering(nn.Module):
    """An attention that puts the kept keys and values before the new ones."""

    def __init__(self, attention: AttentionModule, clock: Clock, capacity: int) -> None:
        super().__init__()
        self.attention, self.clock = attention, clock
        self.kept = Kept(capacity, window_of(attention))

    def forward(self, x_BTD: Tensor) -> Tensor:
        heads = self.attention.heads(x_BTD, self.clock.read)
        k_BKSd, v_BKSe, older = self.kept.extended(heads.k, heads.v)
        return self.attention.gather(heads._replace(k=k_BKSd, v=v_BKSe), older)


class Placed(nn.Module):
    """What the embeddings pass through, from the position on that was reached."""

    def __init__(self, position: nn.Module, clock: Clock) -> None:
        super().__init__()
        self.position, self.clock = position, clock

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.position(x_BTD, self.clock.read)


class LastOnly(nn.Module):
    """A head that reads the last token alone, the one whose successor is wanted."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, hidden_BTD: Tensor, weights_VD: Tensor) -> Tensor:
        return self.head(hidden_BTD[:, -1:], weights_VD)


def window_of(attention: nn.Module) -> float:
    """How many tokens an attention sees at most, itself included; infinite where nothing says so."""
    return max((each.window for each in attention.modules() if isinstance(each, Mixing)), default=math.inf)


def check(model: Transformer) -> None:
    """Raises Mistake for a component that cannot go on from kept keys and values, with the reason."""
    for index, layer in enumerate(model.layers):
        attention = layer.attention
        if not isinstance(attention, AttentionModule):
            raise Mistake(
                f"model.attention: {type(attention).__name__} of layer {index} does not show its keys and values. "
                f"Derive it from labkit.components.gather.AttentionModule, or {REMEDY}."
            )
    if not _takes_offset(model.position):
        raise Mistake(
            f"model.position: {type(model.position).__name__}.forward takes no position to start from. "
            f"Write forward(self, x_BTD, offset=0), or {REMEDY}."
        )


def _takes_offset(module: nn.Module) -> bool:
    try:
        inspect.signature(module.forward).bind(None, 1)
    except TypeError:
        return False
    return True


class Reader:
    """Gives the logits of the next token; beyond the reach it sees the last tokens, as if a text began there."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.reach = model, model.spec.reach or FAR

    def __call__(self, tokens_BT: Tensor) -> Tensor:
        """tokens_BT -> logits_BV of the token after the last; T grows from call to call."""
        return self.model(tokens_BT[:, -self.reach :])[:, -1]


class CachedReader(Reader):
    """Reads each token once, as far as the model reaches."""

    def __init__(self, model: Transformer, clock: Clock, kept: list[Kept]) -> None:
        super().__init__(model)
        self.clock, self.kept = clock, kept

    def __call__(self, tokens_BT: Tensor) -> Tensor:
        if tokens_BT.shape[1] > self.reach:  # every token has another position than before
            tokens_BT = tokens_BT[:, -self.reach :]
            self.forget()
        logits_BV = self.model(tokens_BT[:, self.clock.read :])[:, -1]
        self.clock.read = tokens_BT.shape[1]
        return logits_BV

    def forget(self) -> None:
        self.clock.read = 0
        for kept in self.kept:
            kept.length = 0


@contextmanager
def reading(model: Transformer) -> Generator[Reader]:
    """A model that reads all tokens for each new one. While it lasts, the model gives the last token's logits only."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), _instead(model, "head", LastOnly(model.head)):
            yield Reader(model)
    finally:
        model.train(was_training)


@contextmanager
def caching(model: Transformer, capacity: int) -> Generator[Reader]:
    """A model that reads each token once, `capacity` of them at most; it has a cache while this lasts.

    Raises Mistake for a component that cannot go on from kept keys and values.
    """
    check(model)
    clock, capacity = Clock(), min(capacity, model.spec.reach or capacity)
    remembering = [Remembering(layer.attention, clock, capacity) for layer in model.layers]  # pyright: ignore[reportArgumentType]
    with reading(model), ExitStack() as stack:
        stack.enter_context(_instead(model, "position", Placed(model.position, clock)))
        for layer, attention in zip(model.layers, remembering, strict=True):
            stack.enter_context(_instead(layer, "attention", attention))
        yield CachedReader(model, clock, [each.kept for each in remembering])


@contextmanager
def _instead(parent: nn.Module, name: str, module: nn.Module) -> Generator[None]:
    """Another module in the place of a child."""
    before = getattr(parent, name)
    module.train(before.training)
    setattr(parent, name, module)
    try:
        yield
    finally:
        setattr(parent, name, before)
