"""From prompts to what a model goes on with, several at a time.

Rows of a batch stand at the same position at every step: the batch begins with as many tokens as its shortest prompt
has, and a longer one is read on while the shorter ones are already written. So no row holds padding, no mask hides
any, and each row sees exactly what it sees alone, with every component, also a user's own. Prompts whose lengths
differ by more than the tokens wanted go one batch after another, since reading would then take longer than writing.

Beyond the model's reach (learned positions) the context slides: the last `reach` tokens are read anew at every step,
from position 0 on, with or without a cache.

B batch, T time, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from labkit.generate.cache import caching, reading
from labkit.generate.sampling import Sampling, chosen
from labkit.model import Transformer

Prompt = Sequence[int]


@dataclass(frozen=True)
class Continuation:
    """What follows a prompt."""

    tokens: tuple[int, ...]
    """Without the end token."""
    ended: bool
    """Whether the model ended the text; else it has the length that was asked for."""


def generate(
    model: Transformer, prompts: Sequence[Prompt], sampling: Sampling, *, end: int, cached: bool = True
) -> list[Continuation]:
    """What follows each prompt of token ids; one that is empty starts after an end token, as a document does.

    A prompt gives the same alone and among others, up to the rounding of the model's precision.
    Raises Mistake for a component that cannot work with a cache, where one is wanted.
    """
    rows = [Row(tuple(prompt) or (end,), sampling, end) for prompt in prompts]
    for batch in batches(rows, sampling.tokens):
        _write(model, batch, cached)
    return [Continuation(tuple(row.written), row.ended) for row in rows]


class Row:
    """One text as far as it is written."""

    def __init__(self, prompt: tuple[int, ...], sampling: Sampling, end: int) -> None:
        self.prompt, self.end, self.limit = prompt, end, sampling.tokens
        self.draw = sampling.draws(prompt)
        self.probabilities = sampling.probabilities
        self.written: list[int] = []
        self.ended = False

    @property
    def is_done(self) -> bool:
        return self.ended or len(self.written) == self.limit

    def wants(self, position: int) -> bool:
        """Whether the token at a position is to be chosen: it is not given, and the text not over."""
        return position >= len(self.prompt) and not self.is_done

    def take(self, logits_V: Tensor) -> None:
        token = chosen(self.probabilities(logits_V.unsqueeze(0))[0], self.draw())
        self.ended = token == self.end
        if not self.ended:
            self.written.append(token)

    def token(self, position: int) -> int:
        """The token at a position; the end token where the text is over."""
        index = position - len(self.prompt)
        if index < 0:
            return self.prompt[position]
        return self.written[index] if index < len(self.written) else self.end


def batches(rows: Sequence[Row], tokens: int) -> list[list[Row]]:
    """Rows in the order of their prompts' lengths, which differ by at most `tokens` within a batch."""
    together: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: len(row.prompt)):
        if together and len(row.prompt) <= len(together[-1][0].prompt) + tokens:
            together[-1].append(row)
        else:
            together.append([row])
    return together


def _write(model: Transformer, rows: list[Row], cached: bool) -> None:
    """Write one batch to its end. Positions that no row wants a token at are read later, together."""
    longest = max(len(row.prompt) + row.limit for row in rows)
    device = model.embedding.weight.device
    tokens_BT = torch.empty((len(rows), longest), dtype=torch.int64)
    with caching(model, longest) if cached else reading(model) as read:
        for position in range(longest):
            wanting = [(index, row) for index, row in enumerate(rows) if row.wants(position)]
            if wanting:
                logits_BV = read(tokens_BT[:, :position].to(device)).cpu()
                for index, row in wanting:
                    row.take(logits_BV[index])
            if all(row.is_done for row in rows):
                return
            tokens_BT[:, position] = torch.tensor([row.token(position) for row in rows])
